// Elementwise operators of two tensors, with broadcasting. Comparisons are in comparison.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/ops/catalog.h"
#include "engine/ops/elementwise/elementwise_record.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

constexpr Kind kNumbers{.takes = Takes::numbers};

Value number_like(const Value& x, double number) { return full(x.session(), {Shape{}, x.dtype()}, number); }

/// Both gradients of a binary operator, each computed only where it is wanted, and summed back over what was repeated.
template <class A, class B>
Values pair(const Backward& b, A of_a, B of_b) {
  return {b.wants(0) ? sum_to(of_a(), b.input_shape(0), b.place(0)) : Value(), b.wants(1) ? sum_to(of_b(), b.input_shape(1), b.place(1)) : Value()};
}

/// g, half of it where both are equal, 0 where the other one was taken: all of it at NaN, which is neither.
Value share_of(const Value& g, Value other, Value equals) { return where(std::move(other), number_like(g, 0), where(std::move(equals), g * 0.5, g)); }

Values power_gradient(const Backward& b) {  // da = g b a^(b - 1), 0 for b = 0;  db = g y log a, 0 for a = 0 and b >= 0
  const Value g = b.gradient(0);
  const auto zero = [&] { return number_like(g, 0); };
  return pair(
      b,
      [&] {
        const Value x = b.input(0), e = b.input(1);
        return where(equal(e, zero()), zero(), g * e * power(x, e - 1.0));
      },
      [&] {
        const Value x = b.input(0), stays = logical_and(equal(x, zero()), greater_equal(b.input(1), zero()));
        return where(stays, zero(), g * b.output(0) * log(where(stays, number_like(x, 1), x)));
      });
}

}  // namespace

const OpDef& add_def() {
  static const OpDef def = binary_record<"add", kNumbers>({.doc = "a + b, with broadcasting.",
                                                           .body = "x0 + x1",
                                                           .reference = [](const HostCall& c) { map_numbers<2>(c, [](auto a, auto b) { return a + b; }); },
                                                           .gradient =
                                                               [](const Backward& b) {
                                                                 return pair(
                                                                     b, [&] { return b.gradient(0); }, [&] { return b.gradient(0); });
                                                               },
                                                           .reads = {nothing}});
  return def;
}

const OpDef& subtract_def() {
  static const OpDef def = binary_record<"subtract", kNumbers>({.doc = "a - b, with broadcasting.",
                                                                .body = "x0 - x1",
                                                                .reference = [](const HostCall& c) { map_numbers<2>(c, [](auto a, auto b) { return a - b; }); },
                                                                .gradient =
                                                                    [](const Backward& b) {
                                                                      return pair(
                                                                          b, [&] { return b.gradient(0); }, [&] { return negate(b.gradient(0)); });
                                                                    },
                                                                .reads = {nothing}});
  return def;
}

const OpDef& multiply_def() {
  static const OpDef def =
      binary_record<"multiply", kNumbers>({.doc = "a * b, with broadcasting.",
                                           .body = "x0 * x1",
                                           .reference = [](const HostCall& c) { map_numbers<2>(c, [](auto a, auto b) { return a * b; }); },
                                           .gradient =
                                               [](const Backward& b) {
                                                 return pair(
                                                     b, [&] { return b.gradient(0) * b.input(1); }, [&] { return b.gradient(0) * b.input(0); });
                                               },
                                           .reads = {inputs(1), inputs(0)}});
  return def;
}

const OpDef& divide_def() {
  static const OpDef def = binary_record<"divide", Kind{.b = off_zero(0.5)}>(
      {.doc = "a / b, with broadcasting.",
       .body = "x0 / x1",
       .reference = [](const HostCall& c) { map_as<double, double>(c, [](double a, double b) { return a / b; }); },
       .gradient =
           [](const Backward& b) {  // da = g / b;  db = -g (y / b): g / b may be infinite where y is 0
             return pair(
                 b, [&] { return b.gradient(0) / b.input(1); }, [&] { return negate(b.gradient(0) * (b.output(0) / b.input(1))); });
           },
       .reads = {inputs(1), inputs(1) | outputs(0)}});
  return def;
}

const OpDef& maximum_def() {
  static const OpDef def = binary_record<"maximum", kNumbers>(
      {.doc = "The larger of a and b; NaN where either is. Equal elements share the gradient; at NaN both have all of it.",
       .body = "x0 > x1 || x0 != x0 ? x0 : x1",
       .reference = [](const HostCall& c) { map_numbers<2>(c, [](auto a, auto b) { return a > b || a != a ? a : b; }); },
       .gradient =
           [](const Backward& b) {
             const Value g = b.gradient(0), x = b.input(0), y = b.input(1);
             return pair(
                 b, [&] { return share_of(g, less(x, y), equal(x, y)); }, [&] { return share_of(g, greater(x, y), equal(x, y)); });
           },
       .reads = {inputs(0, 1)}});
  return def;
}

const OpDef& minimum_def() {
  static const OpDef def = binary_record<"minimum", kNumbers>(
      {.doc = "The smaller of a and b; NaN where either is. Equal elements share the gradient; at NaN both have all of it.",
       .body = "x0 < x1 || x0 != x0 ? x0 : x1",
       .reference = [](const HostCall& c) { map_numbers<2>(c, [](auto a, auto b) { return a < b || a != a ? a : b; }); },
       .gradient =
           [](const Backward& b) {
             const Value g = b.gradient(0), x = b.input(0), y = b.input(1);
             return pair(
                 b, [&] { return share_of(g, greater(x, y), equal(x, y)); }, [&] { return share_of(g, less(x, y), equal(x, y)); });
           },
       .reads = {inputs(0, 1)}});
  return def;
}

const OpDef& power_def() {
  static const OpDef def = binary_record<"power", Kind{.a = uniform(0.3, 2)}>(
      {.doc = "a to the power of b, with broadcasting. The gradient of a goes by a^(b - 1), which overflows before it does where b is tiny; that of b is 0 "
              "where a is 0 and b is not negative.",
       .body = "pow(x0, x1)",
       .reference = [](const HostCall& c) { map_as<double, double>(c, [](double a, double b) { return std::pow(a, b); }); },
       .gradient = power_gradient,
       .reads = {inputs(0, 1), inputs(0, 1) | outputs(0)}});
  return def;
}

Value add(Value a, Value b) { return apply(add_def(), list(std::move(a), std::move(b)))[0]; }
Value subtract(Value a, Value b) { return apply(subtract_def(), list(std::move(a), std::move(b)))[0]; }
Value multiply(Value a, Value b) { return apply(multiply_def(), list(std::move(a), std::move(b)))[0]; }
Value divide(Value a, Value b) { return apply(divide_def(), list(std::move(a), std::move(b)))[0]; }
Value maximum(Value a, Value b) { return apply(maximum_def(), list(std::move(a), std::move(b)))[0]; }
Value minimum(Value a, Value b) { return apply(minimum_def(), list(std::move(a), std::move(b)))[0]; }
Value power(Value a, Value b) { return apply(power_def(), list(std::move(a), std::move(b)))[0]; }

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

}  // namespace gemel
