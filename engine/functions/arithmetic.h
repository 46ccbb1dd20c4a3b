// Arithmetic as C++ writes it: a + b, x * 0.5. The eager front end has its own, so this is no part of what it takes from gemel::ops.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "engine/core/value.h"
#include "engine/ops/elementwise/elementwise_operators.h"

namespace gemel {

/// Divides a / b; integers and booleans are divided as float32.
Value true_divide(Value a, Value b);
/// A scalar operand beside a tensor.
struct Number {
  template <class T>
  requires std::is_arithmetic_v<T> Number(T number)
      : value(static_cast<double>(number)), whole(std::is_integral_v<T> ? static_cast<std::int64_t>(number) : 0), is_fraction(std::is_floating_point_v<T>) {}
  double value;
  std::int64_t whole;  // exact value of an integer
  bool is_fraction;    // true for a floating type, whatever its value
};
/// Returns x and a tensor of one element for the scalar, both of the element type that PyTorch promotes to: x's type, but float32 for integers with a fraction,
/// and int64 for booleans with an integer.
/// @throws UsageError for an integer out of range of the element type
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
