// Elementwise operators of one tensor. Changes of element type are in cast.cpp, activations in activation.cpp.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/ops/elementwise/elementwise_record.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

constexpr Kind kPositive{.a = uniform(0.2, 3)};
constexpr Kind kSigned{.takes = Takes::numbers, .a = off_zero()};

}  // namespace

const OpDef& negate_def() {
  static const OpDef def =
      unary_record<"negate", Kind{.takes = Takes::numbers}>({.doc = "The negative, -x.",
                                                             .body = "-x0",
                                                             .reference = [](const HostCall& c) { map_numbers<1>(c, [](auto x) { return -x; }); },
                                                             .gradient = [](const Backward& b) -> Values { return {negate(b.gradient(0))}; },
                                                             .reads = {nothing}});
  return def;
}

const OpDef& abs_def() {
  static const OpDef def = unary_record<"abs", kSigned>({.doc = "The absolute value of x. Its gradient at 0 and at NaN is 0.",
                                                         .body = "x0 < 0 ? -x0 : x0 + 0",  // of -0 too, 0
                                                         .reference = [](const HostCall& c) { map_numbers<1>(c, [](auto x) { return x < 0 ? -x : x + 0; }); },
                                                         .gradient = [](const Backward& b) -> Values { return {b.gradient(0) * sign(b.input(0))}; },
                                                         .reads = {inputs(0)}});
  return def;
}

const OpDef& sign_def() {
  static const OpDef def = unary_record<"sign", kSigned>(
      {.doc = "-1, 0 or 1, as x is negative, zero or positive; 0 of NaN.", .body = "(x0 > 0) - (x0 < 0)", .reference = [](const HostCall& c) {
         map_numbers<1>(c, [](auto x) { return static_cast<decltype(x)>((x > 0) - (x < 0)); });
       }});
  return def;
}

const OpDef& exp_def() {
  static const OpDef def = unary_record<"exp">({.doc = "e to the power of x.",
                                                .body = "exponential(x0)",
                                                .reference = of_reals<[](double x) { return std::exp(x); }>,
                                                .gradient = [](const Backward& b) -> Values { return {b.gradient(0) * b.output(0)}; },
                                                .reads = {outputs(0)}});
  return def;
}

const OpDef& log_def() {
  static const OpDef def = unary_record<"log", kPositive>({.doc = "The natural logarithm of x.",
                                                           .body = "log(x0)",
                                                           .reference = of_reals<[](double x) { return std::log(x); }>,
                                                           .gradient = [](const Backward& b) -> Values { return {b.gradient(0) / b.input(0)}; },
                                                           .reads = {inputs(0)}});
  return def;
}

const OpDef& sqrt_def() {
  static const OpDef def = unary_record<"sqrt", kPositive>({.doc = "The square root of x.",
                                                            .body = "sqrt(x0)",
                                                            .reference = of_reals<[](double x) { return std::sqrt(x); }>,
                                                            .gradient = [](const Backward& b) -> Values { return {b.gradient(0) * 0.5 / b.output(0)}; },
                                                            .reads = {outputs(0)}});
  return def;
}

const OpDef& rsqrt_def() {
  static const OpDef def =
      unary_record<"rsqrt", kPositive>({.doc = "One over the square root of x.",
                                        .body = "rsqrt(x0)",
                                        .reference = of_reals<[](double x) { return 1 / std::sqrt(x); }>,
                                        .gradient = [](const Backward& b) -> Values { return {b.gradient(0) * -0.5 * (b.output(0) * square(b.output(0)))}; },
                                        .reads = {outputs(0)}});
  return def;
}

const OpDef& reciprocal_def() {
  static const OpDef def = unary_record<"reciprocal", Kind{.a = off_zero(0.5)}>(
      {.doc = "One over x.",
       .body = "1.0f / x0",
       .reference = of_reals<[](double x) { return 1 / x; }>,
       .gradient = [](const Backward& b) -> Values { return {negate(b.gradient(0) * square(b.output(0)))}; },
       .reads = {outputs(0)}});
  return def;
}

const OpDef& square_def() {
  static const OpDef def =
      unary_record<"square", Kind{.takes = Takes::numbers}>({.doc = "x times x.",
                                                             .body = "x0 * x0",
                                                             .reference = [](const HostCall& c) { map_numbers<1>(c, [](auto x) { return x * x; }); },
                                                             .gradient = [](const Backward& b) -> Values { return {b.gradient(0) * (b.input(0) * 2.0)}; },
                                                             .reads = {inputs(0)}});
  return def;
}

const OpDef& sin_def() {
  static const OpDef def = unary_record<"sin">({.doc = "The sine of x, in radians.",
                                                .body = "sin(x0)",
                                                .reference = of_reals<[](double x) { return std::sin(x); }>,
                                                .gradient = [](const Backward& b) -> Values { return {b.gradient(0) * cos(b.input(0))}; },
                                                .reads = {inputs(0)}});
  return def;
}

const OpDef& cos_def() {
  static const OpDef def = unary_record<"cos">({.doc = "The cosine of x, in radians.",
                                                .body = "cos(x0)",
                                                .reference = of_reals<[](double x) { return std::cos(x); }>,
                                                .gradient = [](const Backward& b) -> Values { return {negate(b.gradient(0) * sin(b.input(0)))}; },
                                                .reads = {inputs(0)}});
  return def;
}

const OpDef& erf_def() {
  static const OpDef def = unary_record<"erf">(
      {.doc = "The error function, 2 / sqrt(pi) times the integral of exp(-t t) from 0 to x.",
       .body = "error_function(x0)",
       .reference = of_reals<[](double x) { return std::erf(x); }>,
       .gradient = [](const Backward& b) -> Values { return {b.gradient(0) * (exp(negate(square(b.input(0)))) * (2 * std::numbers::inv_sqrtpi))}; },
       .reads = {inputs(0)}});
  return def;
}

const OpDef& tanh_def() {
  static const OpDef def =
      unary_record<"tanh">({.doc = "The hyperbolic tangent of x. Its gradient comes from its value: in float32 it is 0 beyond 9.02, where that is 1.",
                            .body = "tanh(x0)",
                            .reference = of_reals<[](double x) { return std::tanh(x); }>,
                            .gradient = [](const Backward& b) -> Values { return {b.gradient(0) - b.gradient(0) * square(b.output(0))}; },
                            .reads = {outputs(0)}});
  return def;
}

const OpDef& sigmoid_def() {
  static const OpDef def =
      unary_record<"sigmoid">({.doc = "1 / (1 + exp(-x)). Its gradient comes from its value: in float32 it is 0 above 17.4, where that is 1.",
                               .body = "sigmoid(x0)",
                               .reference = of_reals<[](double x) { return 1 / (1 + std::exp(-x)); }>,
                               .gradient = [](const Backward& b) -> Values { return {b.gradient(0) * (b.output(0) - square(b.output(0)))}; },
                               .reads = {outputs(0)}});
  return def;
}

Value negate(Value x) { return apply(negate_def(), list(std::move(x)))[0]; }
Value abs(Value x) { return apply(abs_def(), list(std::move(x)))[0]; }
Value sign(Value x) { return apply(sign_def(), list(std::move(x)))[0]; }
Value exp(Value x) { return apply(exp_def(), list(std::move(x)))[0]; }
Value log(Value x) { return apply(log_def(), list(std::move(x)))[0]; }
Value sqrt(Value x) { return apply(sqrt_def(), list(std::move(x)))[0]; }
Value rsqrt(Value x) { return apply(rsqrt_def(), list(std::move(x)))[0]; }
Value reciprocal(Value x) { return apply(reciprocal_def(), list(std::move(x)))[0]; }
Value square(Value x) { return apply(square_def(), list(std::move(x)))[0]; }
Value sin(Value x) { return apply(sin_def(), list(std::move(x)))[0]; }
Value cos(Value x) { return apply(cos_def(), list(std::move(x)))[0]; }
Value erf(Value x) { return apply(erf_def(), list(std::move(x)))[0]; }
Value tanh(Value x) { return apply(tanh_def(), list(std::move(x)))[0]; }
Value sigmoid(Value x) { return apply(sigmoid_def(), list(std::move(x)))[0]; }

}  // namespace gemel::inline ops
