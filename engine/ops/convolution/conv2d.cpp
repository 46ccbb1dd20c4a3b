// Two-dimensional convolution (cross-correlation) and its two gradients, each linear in both of its inputs:
//   y[n,p,q,k]  = sum_{r,s,c} x[n, p*stride + r*dilation - padding, ..., c] w[r,s,c,k]
//   dx, dw      = the same sum, arranged by x and by w
// Legend: x [N, H, W, C], w [R, S, C / groups, K], y [N, P, Q, K].
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/ops/add_product.h"
#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"
#include "engine/ops/ops.h"

namespace gemel::convolution {

std::int64_t output_extent(std::int64_t in, std::int64_t window, std::int64_t stride, std::int64_t padding, std::int64_t dilation) {
  const std::int64_t room = in + 2 * padding - dilation * (window - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

Geometry geometry_of(const Shape& x, const Shape& w, const Attributes& a) {
  const auto pair = [&](const char* name) { return Pair{a.integers(name)[0], a.integers(name)[1]}; };
  Geometry g{.n = x[0],
             .h = x[1],
             .w = x[2],
             .c = x[3],
             .r = w[0],
             .s = w[1],
             .k = w[3],
             .p = 0,
             .q = 0,
             .groups = a.integer("groups"),
             .stride = pair("stride"),
             .padding = pair("padding"),
             .dilation = pair("dilation")};
  g.p = output_extent(g.h, g.r, g.stride[0], g.padding[0], g.dilation[0]);
  g.q = output_extent(g.w, g.s, g.stride[1], g.padding[1], g.dilation[1]);
  return g;
}

Geometry geometry_of(Direction d, std::span<const Spec> in, std::span<const Spec> out, const Attributes& a) {
  switch (d) {
    case Direction::forward:
      return geometry_of(in[0].shape, in[1].shape, a);
    case Direction::input:
      return geometry_of(out[0].shape, in[1].shape, a);
    case Direction::weights:
      return geometry_of(in[1].shape, out[0].shape, a);
  }
  throw InternalError("convolution: unknown direction");
}

namespace {

using Direction::forward;

constexpr const char* kNames[] = {"conv2d", "conv2d_input_gradient", "conv2d_weight_gradient"};
constexpr const char* name_of(Direction d) { return kNames[static_cast<int>(d)]; }

void check_options(const char* op, const Attributes& a) {
  for (const auto& [name, least] : {std::pair{"stride", 1}, {"padding", 0}, {"dilation", 1}}) check_pair(op, a, name, least);
  if (a.integer("groups") < 1) throw ShapeError(fmt::format("{}: groups is {}; accepted: at least 1", op, a.integer("groups")));
}

void check_channels(const char* op, const Shape& x, const Shape& w, std::int64_t groups) {
  if (const std::int64_t takes = w[2] * groups; x[3] != takes) {
    const std::string grouped = groups > 1 ? fmt::format(" in {} groups", groups) : "";
    const char* turned = x[1] == takes ? ", which transpose(x, {0, 2, 3, 1}) makes of [N, C, H, W]" : "";
    throw ShapeError(fmt::format("{}: x {} has {} channels, its last axis, w {} takes {}{}; accepted: x [N, H, W, {}]{}", op, to_string(x), x[3], to_string(w),
                                 takes, grouped, takes, turned));
  }
  if (w[3] % groups)
    throw ShapeError(fmt::format("{}: {} filters of w {} are not divisible by {} groups; accepted: a divisor", op, w[3], to_string(w), groups));
}

void check_window(const char* op, const Shape& x, const Shape& w, const Geometry& g) {
  if (g.r > 0 && g.s > 0 && g.p > 0 && g.q > 0) return;
  const auto span = [](std::int64_t taps, std::int64_t dilation) { return taps ? (taps - 1) * dilation + 1 : 0; };
  throw ShapeError(fmt::format("{}: the window of w {} spans {} x {}, the padded x {} has {} x {}; accepted: a window of 1 x 1 up to that", op, to_string(w),
                               span(g.r, g.dilation[0]), span(g.s, g.dilation[1]), to_string(x), g.h + 2 * g.padding[0], g.w + 2 * g.padding[1]));
}

Geometry checked_geometry(const char* op, const Spec& x, const Spec& w, const Attributes& a) {
  check_rank(op, "x", x, 4);
  check_rank(op, "w", w, 4);
  check_options(op, a);
  check_channels(op, x.shape, w.shape, a.integer("groups"));
  const Geometry g = geometry_of(x.shape, w.shape, a);
  check_window(op, x.shape, w.shape, g);
  return g;
}

template <Direction d>
Specs infer(const Specs& in, const Attributes& a) {
  constexpr const char* op = name_of(d);
  check_float32(op, d == forward ? "x" : "dy", in[0]);
  check_same_dtype(op, in[0], in[1]);
  const Spec given{d == forward ? in[0].shape : a.shape("shape"), in[0].dtype};
  const Geometry g = d == Direction::weights ? checked_geometry(op, in[1], given, a) : checked_geometry(op, given, in[1], a);
  const Shape y{g.n, g.p, g.q, g.k};
  if (d == forward) return {{y, in[0].dtype}};
  check_shape(op, "dy", in[0], y);
  return {given};
}

template <Direction d>
Cost cost(const Problem& p) {
  return {geometry_of<d>(p).flops(), p.inputs[0].bytes() + p.inputs[1].bytes() + p.outputs[0].bytes()};
}

/// Calls f(index in x, index in w, index in y) for every product of the sum.
template <class F>
void each_product(const Geometry& g, F f) {
  const std::int64_t cg = g.group_channels(), kg = g.group_filters();
  walk<0>(Shape{g.n, g.p, g.q, g.r, g.s}, {}, [&](std::int64_t i, const auto&) {
    const std::int64_t tap = i % g.taps(), y_pixel = i / g.taps(), image = y_pixel / (g.p * g.q);
    const std::int64_t h = y_pixel / g.q % g.p * g.stride[0] - g.padding[0] + tap / g.s * g.dilation[0];
    const std::int64_t w = y_pixel % g.q * g.stride[1] - g.padding[1] + tap % g.s * g.dilation[1];
    if (h < 0 || h >= g.h || w < 0 || w >= g.w) return;
    const std::int64_t x_pixel = (image * g.h + h) * g.w + w;
    for (std::int64_t k = 0; k < g.k; ++k)
      for (std::int64_t c = 0; c < cg; ++c) f(at(x_pixel * g.c + k / kg * cg + c), at((tap * cg + c) * g.k + k), at(y_pixel * g.k + k));
  });
}

template <Direction d>
void reference(const HostCall& call) {
  const std::array in{call.in_spec(0), call.in_spec(1)}, out{call.out_spec(0), call.out_spec(0)};
  const auto a = call.real(0), b = call.real(1);
  const auto y = call.out_real(0);
  std::fill(y.begin(), y.end(), 0.0);
  each_product(geometry_of(d, in, out, call.attributes()), [&](std::size_t x_at, std::size_t w_at, std::size_t y_at) {
    if constexpr (d == forward) y[y_at] += a[x_at] * b[w_at];
    if constexpr (d == Direction::input) y[x_at] += a[y_at] * b[w_at];
    if constexpr (d == Direction::weights) y[w_at] += a[y_at] * b[x_at];
  });
}

Attributes attributes_of(const Convolution& c) {
  const auto list = [](const Pair& p) { return std::vector<std::int64_t>(p.begin(), p.end()); };
  return {{"stride", list(c.stride)}, {"padding", list(c.padding)}, {"dilation", list(c.dilation)}, {"groups", c.groups}};
}
Attributes attributes_of(const Convolution& c, const Shape& shape) {
  Attributes a = attributes_of(c);
  a.set("shape", shape);
  return a;
}
Convolution convolution_of(const Attributes& a) {
  const Geometry g = geometry_of(Shape{0, 0, 0, 0}, Shape{1, 1, 0, 0}, a);
  return {g.stride, g.padding, g.dilation, g.groups};
}

/// Inputs and output of each direction are x, w and y in some order, and so are those of its gradients.
template <Direction d>
Values gradient(const Backward& b) {
  const Convolution c = convolution_of(b.attributes());
  const Value& g = b.gradient(0);
  Values out(2);
  if constexpr (d == forward) {
    if (b.wants(0)) out[0] = conv2d_input_gradient(g, b.input(1), b.input_shape(0), c);
    if (b.wants(1))
      out[1] = b.sum(1) ? add_conv2d_weight_gradient(b.sum(1), g, b.input(0), c) : conv2d_weight_gradient(g, b.input(0), b.input_shape(1), c, b.place(1));
  } else if constexpr (d == Direction::input) {  // g is like x
    if (b.wants(0)) out[0] = conv2d(g, b.input(1), c);
    if (b.wants(1)) out[1] = conv2d_weight_gradient(b.input(0), g, b.input_shape(1), c);
  } else {  // g is like w
    if (b.wants(0)) out[0] = conv2d(b.input(1), g, c);
    if (b.wants(1)) out[1] = conv2d_input_gradient(b.input(0), g, b.input_shape(1), c);
  }
  return out;
}

struct Case {
  Spec x, w;
  Convolution c = {};
};

std::vector<Case> cases() {
  return {{f32({2, 5, 5, 3}), f32({3, 3, 3, 10}), {.padding = {1, 1}}},
          {f32({1, 7, 6, 4}), f32({3, 3, 4, 33}), {.stride = {2, 2}, .padding = {1, 1}}},
          {f32({1, 9, 9, 2}), f32({3, 3, 2, 5}), {.padding = {2, 2}, .dilation = {2, 2}}},
          {f32({2, 4, 4, 6}), f32({3, 3, 3, 8}), {.padding = {1, 1}, .groups = 2}},
          {f32({3, 5, 6, 8}), f32({2, 2, 2, 8}), {.groups = 4}},
          {f32({9, 5, 7, 32}), f32({3, 3, 16, 80}), {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}},
          {f32({1, 6, 9, 24}), f32({3, 3, 8, 24}), {.padding = {1, 2}, .dilation = {1, 2}, .groups = 3}},
          {f32({2, 6, 6, 8}), f32({3, 3, 1, 16}), {.padding = {1, 1}, .groups = 8}},
          {f32({1, 5, 6, 17}), f32({3, 3, 1, 17}), {.padding = {1, 1}, .groups = 17}},
          {f32({2, 7, 5, 32}), f32({3, 3, 1, 32}), {.stride = {2, 2}, .padding = {1, 1}, .groups = 32}},
          {f32({1, 4, 5, 8}), f32({2, 3, 1, 8}), {.padding = {1, 0}, .dilation = {1, 2}, .groups = 8}},
          {f32({2, 9, 9, 8}), f32({5, 5, 1, 8}), {.padding = {2, 2}, .groups = 8}},
          {f32({1, 18, 17, 16}), f32({3, 3, 1, 16}), {.stride = {2, 2}, .padding = {1, 1}, .groups = 16}},
          {f32({1, 5, 6, 8}), f32({3, 3, 8, 40}), {.padding = {1, 1}}},
          {f32({1, 5, 7, 16}), f32({3, 3, 16, 16}), {.padding = {0, 3}}},
          {f32({3, 3, 5, 16}), f32({1, 1, 16, 33})},
          {f32({1, 5, 5, 8}), f32({1, 1, 8, 65}), {.stride = {2, 2}}},
          {f32({1, 15, 13, 3}), f32({7, 7, 3, 8}), {.stride = {2, 2}, .padding = {3, 3}}},
          {f32({9, 1, 1, 5}), f32({3, 3, 5, 32}), {.padding = {1, 1}}},
          {f32({17, 4, 5, 2}), f32({2, 3, 2, 34}), {.stride = {1, 2}, .padding = {1, 0}, .dilation = {2, 1}}},
          {f32({8, 6, 8, 17}), f32({2, 2, 17, 3}), {.stride = {3, 3}}},
          {f32({0, 4, 4, 3}), f32({3, 3, 3, 4})}};
}

template <Direction d>
std::vector<Sample> samples() {
  std::vector<Sample> out;
  for (const Case& s : cases()) {
    const Spec y = infer<forward>({s.x, s.w}, attributes_of(s.c))[0];
    if constexpr (d == forward) out.push_back({{s.x, s.w}, attributes_of(s.c)});
    if constexpr (d == Direction::input) out.push_back({{y, s.w}, attributes_of(s.c, s.x.shape)});
    if constexpr (d == Direction::weights) out.push_back({{y, s.x}, attributes_of(s.c, s.w.shape)});
  }
  return out;
}

std::vector<Rejected> forward_rejected() {
  const Spec x = f32({1, 4, 4, 3});
  return {{{i32({1, 4, 4, 3}), i32({3, 3, 3, 8})}, attributes_of({}), "conv2d: x is int32 [1, 4, 4, 3]; accepted: float32"},
          {{{Shape{1, 4, 4, 3}, DType::bfloat16}, {Shape{3, 3, 3, 8}, DType::bfloat16}},
           attributes_of({}),
           "conv2d: x is bfloat16 [1, 4, 4, 3]; accepted: float32"},
          {{f32({4, 4, 3}), f32({3, 3, 3, 8})}, attributes_of({}), "conv2d: x is [4, 4, 3], of rank 3; accepted: rank 4"},
          {{x, f32({3, 3, 3, 8})}, attributes_of({.stride = {0, 1}}), "conv2d: stride is [0, 1]; accepted: two numbers of at least 1"},
          {{x, f32({3, 3, 3, 8})}, attributes_of({.padding = {-1, 0}}), "conv2d: padding is [-1, 0]; accepted: two numbers of at least 0"},
          {{x, f32({3, 3, 3, 8})}, attributes_of({.groups = 0}), "conv2d: groups is 0; accepted: at least 1"},
          {{x, f32({3, 3, 3, 8})},
           attributes_of({.groups = 2}),
           "conv2d: x [1, 4, 4, 3] has 3 channels, its last axis, w [3, 3, 3, 8] takes 6 in 2 groups; accepted: x [N, H, W, 6]"},
          {{x, f32({3, 3, 1, 8})}, attributes_of({.groups = 3}), "conv2d: 8 filters of w [3, 3, 1, 8] are not divisible by 3 groups; accepted: a divisor"},
          {{f32({8, 3, 32, 32}), f32({3, 3, 3, 8})},
           attributes_of({}),
           "conv2d: x [8, 3, 32, 32] has 32 channels, its last axis, w [3, 3, 3, 8] takes 3; accepted: x [N, H, W, 3], which transpose(x, {0, 2, 3, 1}) makes "
           "of [N, C, H, W]"},
          {{x, f32({3, 3, 5, 8})}, attributes_of({}), "conv2d: x [1, 4, 4, 3] has 3 channels, its last axis, w [3, 3, 5, 8] takes 5; accepted: x [N, H, W, 5]"},
          {{x, f32({3, 5, 3, 8})},
           attributes_of({.dilation = {2, 1}}),
           "conv2d: the window of w [3, 5, 3, 8] spans 5 x 5, the padded x [1, 4, 4, 3] has 4 x 4; accepted: a window of 1 x 1 up to that"},
          {{x, f32({0, 1, 3, 8})},
           attributes_of({}),
           "conv2d: the window of w [0, 1, 3, 8] spans 0 x 1, the padded x [1, 4, 4, 3] has 4 x 4; accepted: a window of 1 x 1 up to that"}};
}

std::vector<Rejected> input_rejected() {
  return {{{f32({1, 4, 4, 8}), f32({3, 3, 3, 8})}, attributes_of({}, {1, 4, 4, 3}), "conv2d_input_gradient: dy is [1, 4, 4, 8]; accepted: [1, 2, 2, 8]"}};
}

std::vector<Rejected> weights_rejected() {
  return {{{f32({1, 4, 4, 8}), f32({1, 4, 4, 3})}, attributes_of({}, {3, 3, 3, 8}), "conv2d_weight_gradient: dy is [1, 4, 4, 8]; accepted: [1, 2, 2, 8]"},
          {{f32({1, 2, 2, 8}), f32({1, 4, 4})}, attributes_of({}, {3, 3, 3, 8}), "conv2d_weight_gradient: x is [1, 4, 4], of rank 3; accepted: rank 4"}};
}

std::vector<AttributeDef> attributes(const char* shape_doc = nullptr) {
  std::vector<AttributeDef> out{{"stride", Type::integers, "steps between windows along H and W"},
                                {"padding", Type::integers, "zeros on both sides of H and of W"},
                                {"dilation", Type::integers, "steps between the taps of a window along H and W"},
                                {"groups", Type::integer, "channels and filters fall into as many independent groups"}};
  if (shape_doc) out.push_back({"shape", Type::shape, shape_doc});
  return out;
}

std::vector<Variant> variants(Direction d) {
  std::vector<Variant> out{depthwise_rows_variant(d), depthwise_window_variant(d), depthwise_variant(d),    winograd_variant(d), tiles_variant(d),
                           gemm_variant(d),           group_tiles_variant(d),      matrix_units_variant(d), direct_variant(d)};
  if (d == Direction::weights) out.insert(out.begin(), weight_rows_variant());
  if (d == Direction::forward) out.insert(out.begin(), rows_variant());
  if (d != Direction::weights) out.insert(out.end() - 1, group_winograd_variant(d));
  return out;
}

}  // namespace
}  // namespace gemel::convolution

namespace gemel::inline ops {

using convolution::Direction;

const OpDef& conv2d_def() {
  static const OpDef def{
      .name = "conv2d",
      .doc = "Two-dimensional cross-correlation of images [N, H, W, C] with weights [R, S, C / groups, K].",
      .inputs = {"x", "w"},
      .attributes = convolution::attributes(),
      .infer = convolution::infer<Direction::forward>,
      .cost = convolution::cost<Direction::forward>,
      .reference = convolution::reference<Direction::forward>,
      .gradient = convolution::gradient<Direction::forward>,
      .gradient_reads = {inputs(1), inputs(0)},
      .takes_epilogue = true,
      .variants = convolution::variants(Direction::forward),
      .samples = convolution::samples<Direction::forward>,
      .rejected = convolution::forward_rejected,
  };
  return def;
}

const OpDef& conv2d_input_gradient_def() {
  static const OpDef def{
      .name = "conv2d_input_gradient",
      .doc = "Gradient of conv2d for its images.",
      .inputs = {"dy", "w"},
      .outputs = {"dx"},
      .attributes = convolution::attributes("of the images"),
      .infer = convolution::infer<Direction::input>,
      .cost = convolution::cost<Direction::input>,
      .reference = convolution::reference<Direction::input>,
      .gradient = convolution::gradient<Direction::input>,
      .gradient_reads = {inputs(1), inputs(0)},
      .takes_epilogue = true,
      .variants = convolution::variants(Direction::input),
      .samples = convolution::samples<Direction::input>,
      .rejected = convolution::input_rejected,
  };
  return def;
}

const OpDef& conv2d_weight_gradient_def() {
  static const OpDef def{
      .name = "conv2d_weight_gradient",
      .doc = "Gradient of conv2d for its weights.",
      .inputs = {"dy", "x"},
      .outputs = {"dw"},
      .attributes = convolution::attributes("of the weights"),
      .infer = convolution::infer<Direction::weights>,
      .cost = convolution::cost<Direction::weights>,
      .reference = convolution::reference<Direction::weights>,
      .gradient = convolution::gradient<Direction::weights>,
      .gradient_reads = {inputs(1), inputs(0)},
      .variants = convolution::variants(Direction::weights),
      .samples = convolution::samples<Direction::weights>,
      .rejected = convolution::weights_rejected,
  };
  return def;
}

const OpDef& add_conv2d_weight_gradient_def() {
  static const OpDef def = add_product::record<conv2d_weight_gradient_def>();
  return def;
}

Value conv2d(Value x, Value w, const Convolution& c) { return apply(conv2d_def(), list(std::move(x), std::move(w)), convolution::attributes_of(c))[0]; }

Value conv2d_input_gradient(Value dy, Value w, const Shape& x_shape, const Convolution& c) {
  return apply(conv2d_input_gradient_def(), list(std::move(dy), std::move(w)), convolution::attributes_of(c, x_shape))[0];
}

Value conv2d_weight_gradient(Value dy, Value x, const Shape& w_shape, const Convolution& c, const Value& into) {
  return apply(conv2d_weight_gradient_def(), list(std::move(dy), std::move(x)), convolution::attributes_of(c, w_shape), std::span(&into, 1))[0];
}

Value add_conv2d_weight_gradient(const Value& sum, Value dy, Value x, const Convolution& c) {
  return apply(add_conv2d_weight_gradient_def(), list(std::move(dy), std::move(x), sum), convolution::attributes_of(c, sum.shape()), std::span(&sum, 1))[0];
}

}  // namespace gemel::inline ops
