// Activations and clamp, and their derivatives as separate operators: one pass over memory each way.
// A derivative operator is dy f'(u), where u is what the activation keeps: its output (relu, relu6) or its input.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/ops/elementwise/elementwise_record.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

constexpr Kind kKinked{.takes = Takes::numbers, .a = off_zero()};
constexpr double kInvSqrt2Pi = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
constexpr double kTanhGelu = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kCube = 0.044715;  // of gelu_tanh: w = kTanhGelu (x + kCube x x x)

/// The sigmoid of w, and the slope of w.
struct TanhGelu {
  static constexpr double kEnd = 12;  // beyond it the sigmoid is 0 or 1 in float32, and x times its derivative 0
  explicit TanhGelu(double x) : s(1 / (1 + std::exp(-kTanhGelu * (x + kCube * x * x * x)))), slope(kTanhGelu * (1 + 3 * kCube * x * x)) {}
  double s, slope;
};

template <auto f>
void derivative_of_reals(const HostCall& c) {
  map_as<double, double>(c, [](double dy, double u) { return f(dy, u); });
}

template <Literal name>
Specs derivative_infer(const Specs& in, const Attributes&) {
  check_floating(name.text, "dy", in[0]);
  check_same_dtype(name.text, in[0], in[1]);
  check_shape(name.text, "dy", in[0], in[1].shape);
  return {in[0]};
}

/// A record of dy f'(u). @param fill  keeps u away from the kinks of f'
template <Literal name, Fill fill>
OpDef derivative_record(const ElementwiseParts& parts) {
  OpDef def = elementwise_record(name.text, {"dy", "u"}, parts);
  def.infer = derivative_infer<name>;
  def.may_reuse = {{0, 0}, {0, 1}};
  def.samples = [] {
    std::vector<Sample> out;
    for (const Shape& s : {Shape{3, 5}, Shape{}, Shape{65, 33}, Shape{0}}) out.push_back({{{s}, {s}}, {}, {Fill{}, fill}});
    return also_in_two_bytes(std::move(out), {2});
  };
  def.rejected = [] {
    const std::string op = name.text;
    return std::vector<Rejected>{{{f32({2}), f32({3})}, {}, op + ": dy is [2]; accepted: [3]"},
                                 {{i32({2}), i32({2})}, {}, op + ": dy is int32 [2]; accepted: float32, float16 or bfloat16"}};
  };
  return def;
}

/// Attributes, inference and samples that clamp and its derivative share.
OpDef bounded_record(OpDef def) {
  def.attributes = {{"low", Type::real, "least value"}, {"high", Type::real, "greatest value"}};
  def.elementwise->scalars = {"low", "high"};
  def.infer = [](const Specs& in, const Attributes& a) -> Specs {
    check_floating("clamp", "x", in.back());
    if (in.size() == 2) {
      check_same_dtype("clamp_gradient", in[0], in[1]);
      check_shape("clamp_gradient", "dy", in[0], in[1].shape);
    }
    if (!(a.real("low") <= a.real("high")))
      throw ShapeError(fmt::format("clamp: low is {}, high is {}; accepted: low up to high", a.real("low"), a.real("high")));
    return {in[0]};
  };
  return def;
}

double held_within(double x, const Attributes& a) {
  const double low = a.real("low"), high = a.real("high");
  return x < low ? low : x > high ? high : x;
}

Value apply_derivative(const OpDef& def, Value dy, Value u) { return apply(def, list(std::move(dy), std::move(u)))[0]; }

}  // namespace

const OpDef& relu_def() {
  static const OpDef def =
      unary_record<"relu", kKinked>({.doc = "x where it is positive, else 0; NaN stays.",
                                     .body = "x0 < 0 ? 0 : x0",
                                     .reference = [](const HostCall& c) { map_numbers<1>(c, [](auto x) { return x < 0 ? decltype(x){0} : x; }); },
                                     .gradient = [](const Backward& b) -> Values { return {relu_gradient(b.gradient(0), b.output(0))}; },
                                     .reads = {outputs(0)}});
  return def;
}

const OpDef& relu_gradient_def() {
  static const OpDef def =
      derivative_record<"relu_gradient", off_zero()>({.doc = "dy where relu's output u is not 0.",
                                                      .body = "x1 <= 0 ? 0 : x0",
                                                      .reference = derivative_of_reals<[](double dy, double u) { return u <= 0 ? 0 : dy; }>,
                                                      .gradient = [](const Backward& b) -> Values {
                                                        return {b.wants(0) ? relu_gradient(b.gradient(0), b.input(1)) : Value(), Value()};
                                                      },
                                                      .reads = {inputs(1), nothing}});
  return def;
}

const OpDef& relu6_def() {
  static const OpDef def = unary_record<"relu6", Kind{.takes = Takes::numbers, .a = distinct(-3, 9)}>(
      {.doc = "x held within 0 and 6; NaN stays.",
       .body = "x0 < 0 ? 0 : x0 > 6 ? 6 : x0",
       .reference = [](const HostCall& c) { map_numbers<1>(c, [](auto x) { return x < 0   ? decltype(x){0}
                                                                                  : x > 6 ? decltype(x){6}
                                                                                          : x; }); },
       .gradient = [](const Backward& b) -> Values { return {relu6_gradient(b.gradient(0), b.output(0))}; },
       .reads = {outputs(0)}});
  return def;
}

const OpDef& relu6_gradient_def() {
  static const OpDef def =
      derivative_record<"relu6_gradient", distinct(-3, 9)>({.doc = "dy where relu6's output u is neither 0 nor 6.",
                                                            .body = "x1 <= 0 || x1 >= 6 ? 0 : x0",
                                                            .reference = derivative_of_reals<[](double dy, double u) { return u <= 0 || u >= 6 ? 0 : dy; }>,
                                                            .gradient = [](const Backward& b) -> Values {
                                                              return {b.wants(0) ? relu6_gradient(b.gradient(0), b.input(1)) : Value(), Value()};
                                                            },
                                                            .reads = {inputs(1), nothing}});
  return def;
}

const OpDef& silu_def() {
  static const OpDef def = unary_record<"silu">({.doc = "x sigmoid(x), also called swish.",
                                                 .body = "x0 * sigmoid(x0)",
                                                 .reference = of_reals<[](double x) { return x / (1 + std::exp(-x)); }>,
                                                 .gradient = [](const Backward& b) -> Values { return {silu_gradient(b.gradient(0), b.input(0))}; },
                                                 .reads = {inputs(0)}});
  return def;
}

const OpDef& silu_gradient_def() {
  // f' = s (1 + x (1 - s)),  f'' = s (1 - s) (2 + x (1 - 2 s)),  where s = sigmoid(x)
  static const OpDef def = derivative_record<"silu_gradient", Fill{}>(
      {.doc = "dy times the derivative of silu at u.",
       .body = "x0 * sigmoid(x1) * (1.0f + x1 * sigmoid(-x1))",  // 1 - sigmoid(x1) would lose what is left of it where x1 is large
       .reference = derivative_of_reals<[](double dy, double u) { return dy / (1 + std::exp(-u)) * (1 + u / (1 + std::exp(u))); }>,
       .gradient = [](const Backward& b) -> Values {
         const Value g = b.gradient(0), x = b.input(1);
         Value second;
         if (b.wants(1)) {
           const Value s = sigmoid(x);
           second = g * b.input(0) * (s - square(s)) * (x * (s * -2.0 + 1.0) + 2.0);
         }
         return {b.wants(0) ? silu_gradient(g, x) : Value(), std::move(second)};
       },
       .reads = {inputs(1), inputs(0, 1)}});
  return def;
}

const OpDef& hard_swish_def() {
  static const OpDef def = unary_record<"hard_swish", Kind{.a = distinct(-5, 5)}>(
      {.doc = "x relu6(x + 3) / 6.",
       .body = "x0 * (clamp(x0 + 3.0f, 0.0f, 6.0f) / 6.0f)",
       .reference = of_reals<[](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }>,
       .gradient = [](const Backward& b) -> Values { return {hard_swish_gradient(b.gradient(0), b.input(0))}; },
       .reads = {inputs(0)}});
  return def;
}

const OpDef& hard_swish_gradient_def() {
  static const OpDef def = derivative_record<"hard_swish_gradient", distinct(-5, 5)>(
      {.doc = "dy times the derivative of hard_swish at u.",
       .body = "x1 <= -3 ? 0 : x1 >= 3 ? x0 : x0 * (x1 / 3 + 0.5f)",
       .reference = derivative_of_reals<[](double dy, double u) { return u <= -3  ? 0
                                                                         : u >= 3 ? dy
                                                                                  : dy * (u / 3 + 0.5); }>,
       .gradient = [](const Backward& b) -> Values {
         const Value g = b.gradient(0), x = b.input(1);
         return {b.wants(0) ? hard_swish_gradient(g, x) : Value(), b.wants(1) ? clamp_gradient(g * b.input(0) * (1.0 / 3), x, -3, 3) : Value()};
       },
       .reads = {inputs(1), inputs(0, 1)}});
  return def;
}

const OpDef& gelu_def() {
  static const OpDef def = unary_record<"gelu">({.doc = "x Phi(x), exact, where Phi is the normal distribution function.",
                                                 .body = "0.5f * x0 * error_complement(-x0 * M_SQRT1_2_F)",
                                                 .reference = of_reals<[](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }>,
                                                 .gradient = [](const Backward& b) -> Values { return {gelu_gradient(b.gradient(0), b.input(0))}; },
                                                 .reads = {inputs(0)}});
  return def;
}

const OpDef& gelu_gradient_def() {
  // f' = Phi(x) + x phi(x),  f'' = phi(x) (2 - x x),  where phi(x) = exp(-x x / 2) / sqrt(2 pi)
  static const OpDef def = derivative_record<"gelu_gradient", Fill{}>(
      {.doc = "dy times the derivative of gelu at u.",
       .body = "x0 * (0.5f * error_complement(-x1 * M_SQRT1_2_F) + x1 * 0.3989422804f * exponential(-0.5f * x1 * x1))",
       .reference =
           derivative_of_reals<[](double dy, double u) { return dy * (0.5 * std::erfc(-u / std::numbers::sqrt2) + u * kInvSqrt2Pi * std::exp(-0.5 * u * u)); }>,
       .gradient = [](const Backward& b) -> Values {
         const Value g = b.gradient(0), x = b.input(1);
         Value second;
         if (b.wants(1)) {
           const Value xx = square(x);
           second = g * b.input(0) * (exp(xx * -0.5) * kInvSqrt2Pi) * (xx * -1.0 + 2.0);
         }
         return {b.wants(0) ? gelu_gradient(g, x) : Value(), std::move(second)};
       },
       .reads = {inputs(1), inputs(0, 1)}});
  return def;
}

const OpDef& gelu_tanh_def() {
  // (1 + tanh(w / 2)) / 2 is the sigmoid of w: one exponential, and nothing cancels.
  static const OpDef def = unary_record<"gelu_tanh">({.doc = "0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x x x))), an approximation of gelu.",
                                                      .body = "x0 * sigmoid(1.5957691216f * x0 * (1.0f + 0.044715f * x0 * x0))",
                                                      .reference = of_reals<[](double x) { return x * TanhGelu(x).s; }>,
                                                      .gradient = [](const Backward& b) -> Values { return {gelu_tanh_gradient(b.gradient(0), b.input(0))}; },
                                                      .reads = {inputs(0)}});
  return def;
}

const OpDef& gelu_tanh_gradient_def() {
  // f = x s, s = sigmoid(w), w = c (x + a x x x):  f' = s + x s (1 - s) w',  f'' = s (1 - s) (2 w' + x ((1 - 2 s) w' w' + w''))
  // 1 - s is the sigmoid of -w, as in silu_gradient. x is held where w' would overflow; NaN stays.
  const std::string held = fmt::format("(x1 < -{0:.1f}f ? -{0:.1f}f : x1 > {0:.1f}f ? {0:.1f}f : x1)", TanhGelu::kEnd);
  const std::string w = fmt::format("1.5957691216f * {0} * (1.0f + 0.044715f * {0} * {0})", held);
  const std::string body = fmt::format("x0 * sigmoid({0}) * (1.0f + {1} * sigmoid(-({0})) * (1.5957691216f + 0.2140644876f * {1} * {1}))", w, held);
  static const OpDef def = derivative_record<"gelu_tanh_gradient", Fill{}>(
      {.doc = "dy times the derivative of gelu_tanh at u; that is 0 and 1 at the infinities, where PyTorch's is NaN.",
       .body = body.c_str(),
       .reference = derivative_of_reals<[](double dy, double u) {
         const double x = std::clamp(u, -TanhGelu::kEnd, TanhGelu::kEnd);
         const TanhGelu g(x);
         return dy * (g.s + x * g.s * (1 - g.s) * g.slope);
       }>,
       .gradient = [](const Backward& b) -> Values {
         const Value g = b.gradient(0), x = b.input(1);
         Value second;
         if (b.wants(1)) {
           const Value xx = square(x), s = sigmoid((xx * kCube + 1.0) * x * kTanhGelu), slope = (xx * (3 * kCube) + 1.0) * kTanhGelu;
           second = g * b.input(0) * (s - square(s)) * (slope * 2.0 + x * ((s * -2.0 + 1.0) * square(slope) + x * (6 * kCube * kTanhGelu)));
         }
         return {b.wants(0) ? gelu_tanh_gradient(g, x) : Value(), std::move(second)};
       },
       .reads = {inputs(1), inputs(0, 1)}});
  return def;
}

const OpDef& clamp_def() {
  static const OpDef def = [] {
    OpDef d =
        bounded_record(elementwise_record("clamp", {"x"},
                                          {.doc = "x held within low and high; NaN stays.",
                                           .body = "x0 < low ? low : x0 > high ? high : x0",
                                           .reference = [](const HostCall& c) { map_as<double>(c, [&](double x) { return held_within(x, c.attributes()); }); },
                                           .gradient = [](const Backward& b) -> Values {
                                             return {clamp_gradient(b.gradient(0), b.input(0), b.attributes().real("low"), b.attributes().real("high"))};
                                           },
                                           .reads = {inputs(0)}}));
    d.may_reuse = {{0, 0}};
    d.samples = [] {
      std::vector<Sample> out;
      for (const Shape& s : {Shape{3, 5}, Shape{}, Shape{65, 33}, Shape{0}}) out.push_back({{{s}}, {{"low", -1.0}, {"high", 0.5}}, {distinct()}});
      return also_in_two_bytes(std::move(out), {2});
    };
    d.rejected = [] {
      return std::vector<Rejected>{{{f32({2})}, {{"low", 2.0}, {"high", 1.5}}, "clamp: low is 2, high is 1.5; accepted: low up to high"},
                                   {{i32({2})}, {{"low", 0.0}, {"high", 1.0}}, "clamp: x is int32 [2]; accepted: float32, float16 or bfloat16"}};
    };
    return d;
  }();
  return def;
}

const OpDef& clamp_gradient_def() {
  static const OpDef def = [] {
    OpDef d = bounded_record(
        elementwise_record("clamp_gradient", {"dy", "x"},
                           {.doc = "dy where x is between low and high, 0 at both.",
                            .body = "x1 > low && x1 < high ? x0 : 0",
                            .reference =
                                [](const HostCall& c) {
                                  const double low = c.attributes().real("low"), high = c.attributes().real("high");
                                  map_as<double, double>(c, [=](double dy, double x) { return x > low && x < high ? dy : 0; });
                                },
                            .gradient = [](const Backward& b) -> Values {
                              if (!b.wants(0)) return {Value(), Value()};
                              return {clamp_gradient(b.gradient(0), b.input(1), b.attributes().real("low"), b.attributes().real("high")), Value()};
                            },
                            .reads = {inputs(1), nothing}}));
    d.may_reuse = {{0, 0}, {0, 1}};
    d.samples = [] {
      std::vector<Sample> out;
      for (const Shape& s : {Shape{3, 5}, Shape{65, 33}, Shape{0}}) out.push_back({{{s}, {s}}, {{"low", -1.0}, {"high", 0.5}}, {Fill{}, distinct()}});
      return also_in_two_bytes(std::move(out), {1});
    };
    d.rejected = [] { return std::vector<Rejected>{{{f32({2}), f32({3})}, {{"low", 0.0}, {"high", 1.0}}, "clamp_gradient: dy is [2]; accepted: [3]"}}; };
    return d;
  }();
  return def;
}

Value relu(Value x) { return apply(relu_def(), list(std::move(x)))[0]; }
Value relu6(Value x) { return apply(relu6_def(), list(std::move(x)))[0]; }
Value silu(Value x) { return apply(silu_def(), list(std::move(x)))[0]; }
Value hard_swish(Value x) { return apply(hard_swish_def(), list(std::move(x)))[0]; }
Value gelu(Value x) { return apply(gelu_def(), list(std::move(x)))[0]; }
Value gelu_tanh(Value x) { return apply(gelu_tanh_def(), list(std::move(x)))[0]; }
Value clamp(Value x, double low, double high) { return apply(clamp_def(), list(std::move(x)), {{"low", low}, {"high", high}})[0]; }
Value clamp_gradient(Value dy, Value x, double low, double high) {
  return apply(clamp_gradient_def(), list(std::move(dy), std::move(x)), {{"low", low}, {"high", high}})[0];
}
Value relu_gradient(Value dy, Value y) { return apply_derivative(relu_gradient_def(), std::move(dy), std::move(y)); }
Value relu6_gradient(Value dy, Value y) { return apply_derivative(relu6_gradient_def(), std::move(dy), std::move(y)); }
Value silu_gradient(Value dy, Value x) { return apply_derivative(silu_gradient_def(), std::move(dy), std::move(x)); }
Value hard_swish_gradient(Value dy, Value x) { return apply_derivative(hard_swish_gradient_def(), std::move(dy), std::move(x)); }
Value gelu_gradient(Value dy, Value x) { return apply_derivative(gelu_gradient_def(), std::move(dy), std::move(x)); }
Value gelu_tanh_gradient(Value dy, Value x) { return apply_derivative(gelu_tanh_gradient_def(), std::move(dy), std::move(x)); }

}  // namespace gemel::inline ops
