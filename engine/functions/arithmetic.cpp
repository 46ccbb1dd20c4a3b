#include "engine/functions/arithmetic.h"

#include <fmt/format.h>

#include <span>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/functions/functions.h"
#include "engine/ops/shape/shape_operators.h"

namespace gemel {

Value true_divide(Value a, Value b) {
  if (!is_floating(a.dtype()) && !is_floating(b.dtype())) {
    a = cast(std::move(a), DType::float32);
    b = cast(std::move(b), DType::float32);
  }
  return divide(std::move(a), std::move(b));
}

namespace {

void check_fits(DType dtype, Number number) {
  const bool is_narrow = dtype == DType::int32;
  if (number.value >= 0x1p63 || (is_narrow && !std::in_range<std::int32_t>(number.whole)))
    throw UsageError(fmt::format("{:.0f} beside a tensor of {}: it does not fit; accepted: -2^{} to 2^{} - 1, or a tensor that is cast to another type",
                                 number.value, to_string(dtype), is_narrow ? 31 : 63, is_narrow ? 31 : 63));
}

}  // namespace

std::pair<Value, Value> alike(Value x, Number number) {
  DType dtype = x.dtype();
  if (!is_floating(dtype) && number.is_fraction) dtype = DType::float32;
  if (dtype == DType::boolean) dtype = DType::int64;
  const Spec one{Shape{}, dtype};
  if (!is_floating(dtype)) check_fits(dtype, number);
  constexpr std::int64_t kExact = std::int64_t{1} << 53;  // of a double
  Value n = dtype == DType::int64 && (number.whole > kExact || number.whole < -kExact) ? x.session().tensor(one, std::as_bytes(std::span(&number.whole, 1)))
                                                                                       : full(x.session(), one, number.value);
  return {x.dtype() == dtype ? std::move(x) : cast(std::move(x), dtype), std::move(n)};
}

namespace {

using Binary = Value (*)(Value, Value);

Value with_number(Binary op, Value x, Number number) {
  auto [a, b] = alike(std::move(x), number);
  return op(std::move(a), std::move(b));
}
Value with_number(Binary op, Number number, Value x) {
  auto [a, b] = alike(std::move(x), number);
  return op(std::move(b), std::move(a));
}

}  // namespace

Value operator+(Value x, Number number) { return with_number(add, std::move(x), number); }
Value operator-(Value x, Number number) { return with_number(subtract, std::move(x), number); }
Value operator*(Value x, Number number) { return with_number(multiply, std::move(x), number); }
Value operator/(Value x, Number number) { return with_number(true_divide, std::move(x), number); }
Value operator+(Number number, Value x) { return with_number(add, std::move(x), number); }
Value operator-(Number number, Value x) { return with_number(subtract, number, std::move(x)); }
Value operator*(Number number, Value x) { return with_number(multiply, std::move(x), number); }
Value operator/(Number number, Value x) { return with_number(true_divide, number, std::move(x)); }

const FunctionDef& true_divide_def() {
  static const FunctionDef def{
      .name = "true_divide",
      .doc = "a / b; integers and booleans are divided as float32.",
      .inputs = {"a", "b"},
      .definition = [](const Values& in, const Attributes&) { return true_divide(in[0], in[1]); },
      .samples =
          [] {
            return std::vector<Sample>{{{f32({2, 3}), f32({3})}, {}, {Fill{}, off_zero(0.3)}},
                                       {{i32({4}), i32({4})}, {}, {integers(-9, 9), integers(1, 9)}},
                                       {{b8({4}), i64({})}, {}, {Fill{}, integers(1, 9)}}};
          },
  };
  return def;
}

}  // namespace gemel
