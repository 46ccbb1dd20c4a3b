// Arithmetic as C++ writes it: a + b, x * 0.5. The eager front end has its own, so this is no part of what it takes from gemel::ops.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "engine/core/value.h"
#include "engine/ops/elementwise/elementwise_operators.h"

namespace gemel {

/// a / b; integers and booleans are divided as float32.
Value true_divide(Value a, Value b);
/// A number beside a tensor.
struct Number {
  template <class T>
  requires std::is_arithmetic_v<T> Number(T number)
      : value(static_cast<double>(number)), whole(std::is_integral_v<T> ? static_cast<std::int64_t>(number) : 0), is_fraction(std::is_floating_point_v<T>) {}
  double value;
  std::int64_t whole;  // exactly, of an integer
  bool is_fraction;    // of a floating type, whatever its value
};
/// x, and a tensor of one element for the number, both of the type that PyTorch gives them: x's, which is float32 for integers beside a fraction, and
/// int64 for booleans beside an integer. So both front ends understand x * 0.5.
/// @throws UsageError an integer that the integers of this type do not hold
std::pair<Value, Value> alike(Value x, Number number);

inline Value operator+(Value a, Value b) { return add(std::move(a), std::move(b)); }
inline Value operator-(Value a, Value b) { return subtract(std::move(a), std::move(b)); }
inline Value operator*(Value a, Value b) { return multiply(std::move(a), std::move(b)); }
inline Value operator/(Value a, Value b) { return true_divide(std::move(a), std::move(b)); }
inline Value operator-(Value x) { return negate(std::move(x)); }
Value operator+(Value x, Number number);
Value operator-(Value x, Number number);
Value operator*(Value x, Number number);
Value operator/(Value x, Number number);
Value operator+(Number number, Value x);
Value operator-(Number number, Value x);
Value operator*(Number number, Value x);
Value operator/(Number number, Value x);

}  // namespace gemel
