// Elementwise operators of two tensors, with broadcasting. Comparisons are in comparison.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/ops/elementwise/elementwise_record.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
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

}  // namespace gemel::inline ops
