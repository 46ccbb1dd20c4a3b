// Average pooling, over windows at even steps and over windows that split the image evenly (adaptive).
//   y = sum of a window / its count     dx[h,w] = sum over the windows that cover (h, w) of dy / their count
// Adaptive windows: rows floor(p H / P) to ceil((p + 1) H / P) - 1, columns likewise.
// Legend: x [N, H, W, C], y [N, P, Q, C].
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/ops/pooling/pooling_common.h"

namespace gemel::inline ops {
namespace {

using pooling::Form;
using pooling::Geometry;
using pooling::geometry_of;

Attributes attributes_of(const Window& v) {
  return {{"kernel", pooling::list_of(v.kernel)},
          {"stride", pooling::list_of(v.stride)},
          {"padding", pooling::list_of(v.padding)},
          {"ceil_mode", v.ceil_mode},
          {"count_padding", v.count_padding}};
}
Attributes with_shape(Attributes a, const Shape& shape) {
  a.set("shape", shape);
  return a;
}
std::vector<AttributeDef> attribute_defs() {
  auto out = pooling::window_attributes();
  out.push_back({"count_padding", Type::boolean, "divide by the window with its padding"});
  return out;
}
std::vector<AttributeDef> with_shape(std::vector<AttributeDef> defs) {
  defs.push_back({"shape", Type::shape, "of the images"});
  return defs;
}

Value spread(Value dy, const Attributes& a, const Shape& x) { return apply(avg_pool2d_gradient_def(), list(std::move(dy)), with_shape(a, x))[0]; }
Value adaptive_spread(Value dy, const Shape& x) { return apply(adaptive_avg_pool2d_gradient_def(), list(std::move(dy)), {{"shape", x}})[0]; }

// ---- avg_pool2d and its gradient
/// What a window's sum is divided by: its elements up to the far edge of the padding, or those in the image.
double count_of(const Geometry& g, std::int64_t p, std::int64_t q) {
  const Window& v = g.window;
  const auto along = [&](std::size_t axis, std::int64_t i, std::int64_t extent) {
    const std::int64_t begin = i * v.stride[axis] - v.padding[axis], end = begin + v.kernel[axis];
    return v.count_padding ? std::min(end, extent + v.padding[axis]) - begin : std::min(end, extent) - std::max<std::int64_t>(begin, 0);
  };
  return static_cast<double>(along(0, p, g.h) * along(1, q, g.w));
}

/// Calls f(index in x, index in y, count) for every element of every window.
template <class F>
void each_element(const Geometry& g, F f) {
  pooling::each_tap(g, [&](std::int64_t, std::int64_t x, std::int64_t y) {
    const double count = count_of(g, y / g.q % g.p, y % g.q);
    for (std::int64_t c = 0; c < g.c; ++c) f(at(x * g.c + c), at(y * g.c + c), count);
  });
}

Specs infer(const Specs& in, const Attributes& a) {
  check_float32("avg_pool2d", "x", in[0]);
  const Geometry g = pooling::checked_geometry("avg_pool2d", in[0], a);
  return {{{g.n, g.p, g.q, g.c}, in[0].dtype}};
}
Specs gradient_infer(const Specs& in, const Attributes& a) {
  check_float32("avg_pool2d_gradient", "dy", in[0]);
  const Spec x{a.shape("shape"), in[0].dtype};
  const Geometry g = pooling::checked_geometry("avg_pool2d_gradient", x, a);
  check_shape("avg_pool2d_gradient", "dy", in[0], {g.n, g.p, g.q, g.c});
  return {x};
}

void reference(const HostCall& call) {
  const auto x = call.real(0);
  const auto y = call.out_real(0);
  std::fill(y.begin(), y.end(), 0.0);
  each_element(geometry_of(call.in_shape(0), call.attributes()), [&](std::size_t from, std::size_t to, double count) { y[to] += x[from] / count; });
}
void gradient_reference(const HostCall& call) {
  const auto dy = call.real(0);
  const auto dx = call.out_real(0);
  std::fill(dx.begin(), dx.end(), 0.0);
  each_element(geometry_of(call.out_shape(0), call.attributes()), [&](std::size_t to, std::size_t from, double count) { dx[to] += dy[from] / count; });
}

void run(const Launch& l, const char* kernel, Form form, const Shape& x) {
  const Geometry g = geometry_of(x, l.attributes());
  Arguments arguments = pooling::arguments_of({l.in(0), l.out(0)}, g);
  arguments.add(g.window.count_padding);
  pooling::run(l, {kernel, form, l.out_shape(0), &g}, std::move(arguments));
}
template <Form form>
void launch(Launch& l) {
  run(l, "avg_pool", form, l.in_shape(0));
}
template <Form form>
void gradient_launch(Launch& l) {
  run(l, "avg_pool_gradient", form, l.out_shape(0));
}

// ---- adaptive_avg_pool2d and its gradient
void check_extents(const char* op, const Shape& x, const std::vector<std::int64_t>& extents) {
  if (extents.size() != 2 || extents[0] < 1 || extents[1] < 1)
    throw ShapeError(fmt::format("{}: extents are {}; accepted: two numbers of at least 1", op, to_string(Attributes::Item(extents))));
  if (x[1] < 1 || x[2] < 1) throw ShapeError(fmt::format("{}: x is {}; accepted: images of at least 1 x 1", op, to_string(x)));
}

Specs adaptive_infer(const Specs& in, const Attributes& a) {
  check_float32("adaptive_avg_pool2d", "x", in[0]);
  check_rank("adaptive_avg_pool2d", "x", in[0], 4);
  const Shape& x = in[0].shape;
  const auto& extents = a.integers("extents");
  check_extents("adaptive_avg_pool2d", x, extents);
  return {{{x[0], extents[0], extents[1], x[3]}, in[0].dtype}};
}
Specs adaptive_gradient_infer(const Specs& in, const Attributes& a) {
  const char* op = "adaptive_avg_pool2d_gradient";
  check_float32(op, "dy", in[0]);
  check_rank(op, "dy", in[0], 4);
  const Spec x{a.shape("shape"), in[0].dtype};
  check_rank(op, "x", x, 4);
  const Shape& y = in[0].shape;
  check_extents(op, x.shape, {y[1], y[2]});
  check_shape(op, "dy", in[0], {x.shape[0], y[1], y[2], x.shape[3]});
  return {x};
}

template <class F>
void each_adaptive_element(const Shape& x, const Shape& y, F f) {
  const auto begin = [](std::int64_t i, std::int64_t in, std::int64_t out) { return i * in / out; };
  const auto end = [](std::int64_t i, std::int64_t in, std::int64_t out) { return ceil_div((i + 1) * in, out); };
  walk<0>(y, {}, [&](std::int64_t i, const auto&) {
    const std::int64_t c = i % y[3], q = i / y[3] % y[2], p = i / y[3] / y[2] % y[1], n = i / y[3] / y[2] / y[1];
    const std::int64_t h0 = begin(p, x[1], y[1]), h1 = end(p, x[1], y[1]), w0 = begin(q, x[2], y[2]), w1 = end(q, x[2], y[2]);
    const double count = static_cast<double>((h1 - h0) * (w1 - w0));
    for (std::int64_t h = h0; h < h1; ++h)
      for (std::int64_t w = w0; w < w1; ++w) f(at(((n * x[1] + h) * x[2] + w) * x[3] + c), at(i), count);
  });
}

void adaptive_reference(const HostCall& call) {
  const auto x = call.real(0);
  const auto y = call.out_real(0);
  std::fill(y.begin(), y.end(), 0.0);
  each_adaptive_element(call.in_shape(0), call.out_shape(0), [&](std::size_t from, std::size_t to, double count) { y[to] += x[from] / count; });
}
void adaptive_gradient_reference(const HostCall& call) {
  const auto dy = call.real(0);
  const auto dx = call.out_real(0);
  std::fill(dx.begin(), dx.end(), 0.0);
  each_adaptive_element(call.out_shape(0), call.in_shape(0), [&](std::size_t to, std::size_t from, double count) { dx[to] += dy[from] / count; });
}

void adaptive_run(const Launch& l, const char* kernel, Form form, const Shape& x, const Shape& y) {
  pooling::run(l, {kernel, form, l.out_shape(0)}, {l.in(0), l.out(0), ints(x[1], x[2], x[3], y[1], y[2])});
}
template <Form form>
void adaptive_launch(Launch& l) {
  adaptive_run(l, "adaptive_pool", form, l.in_shape(0), l.out_shape(0));
}
template <Form form>
void adaptive_gradient_launch(Launch& l) {
  adaptive_run(l, "adaptive_pool_gradient", form, l.out_shape(0), l.in_shape(0));
}

// ---- samples
/// One FLOP for each element of each window.
Cost windows_cost(const Problem& p, const Shape& x) {
  const Geometry g = geometry_of(x, p.attributes);
  return {g.n * g.p * g.q * g.c * g.taps(), per_element<0>(p).bytes};
}

struct Case {
  Spec x;
  Window v;
};
std::vector<Case> cases() {
  return {{f32({2, 6, 6, 3}), {}},
          {f32({1, 7, 9, 16}), {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
          {f32({1, 8, 7, 17}), {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 0}, .count_padding = false}},
          {f32({1, 6, 8, 2}), {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}},
          {f32({1, 6, 5, 32}), {.kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}},
          {f32({1, 6, 5, 1}), {.kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true, .count_padding = false}},
          {f32({3, 1, 1, 5}), {.kernel = {1, 1}, .stride = {1, 1}}},
          {f32({0, 4, 4, 2}), {}}};
}

struct AdaptiveCase {
  Shape x, y;
};
std::vector<AdaptiveCase> adaptive_cases() {
  return {{{2, 7, 7, 16}, {2, 1, 1, 16}}, {{1, 7, 5, 3}, {1, 3, 2, 3}},   {{1, 6, 6, 17}, {1, 3, 6, 17}},
          {{1, 2, 3, 4}, {1, 5, 7, 4}},   {{3, 1, 1, 32}, {3, 1, 1, 32}}, {{0, 4, 4, 2}, {0, 2, 2, 2}}};
}

}  // namespace

const OpDef& avg_pool2d_def() {
  static const OpDef def{
      .name = "avg_pool2d",
      .doc = "Mean of each window.",
      .inputs = {"x"},
      .attributes = attribute_defs(),
      .infer = infer,
      .cost = [](const Problem& p) { return windows_cost(p, p.inputs[0].shape); },
      .reference = reference,
      .gradient = [](const Backward& b) -> Values { return {spread(b.gradient(0), b.attributes(), b.input_shape(0))}; },
      .gradient_reads = {nothing},
      .variants = pooling::variants(launch<Form::vectors>, launch<Form::one_channel>, launch<Form::pixels>),
      .samples =
          [] {
            std::vector<Sample> out;
            for (const auto& [x, v] : cases()) out.push_back({{x}, attributes_of(v)});
            return out;
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{{Shape{1, 4, 4, 3}, DType::bfloat16}}, attributes_of({}), "avg_pool2d: x is bfloat16 [1, 4, 4, 3]; accepted: float32"},
                {{f32({1, 4, 4, 3})}, attributes_of({.padding = {-2, 0}}), "avg_pool2d: padding is [-2, 0]; accepted: two numbers of at least 0"},
                {{f32({1, 4, 4, 3})},
                 attributes_of({.padding = {0, 2}}),
                 "avg_pool2d: padding is [0, 2] for a kernel of 2 x 2; accepted: at most half the kernel"},
                {{f32({1, 4, 4, 3})},
                 attributes_of({.kernel = {5, 2}}),
                 "avg_pool2d: the window spans 5 x 2, the padded x [1, 4, 4, 3] has 4 x 4; accepted: a window up to that"}};
          },
  };
  return def;
}

const OpDef& avg_pool2d_gradient_def() {
  static const OpDef def{
      .name = "avg_pool2d_gradient",
      .doc = "Gradient of avg_pool2d: each dy is spread evenly over its window.",
      .inputs = {"dy"},
      .outputs = {"dx"},
      .attributes = with_shape(attribute_defs()),
      .infer = gradient_infer,
      .cost = [](const Problem& p) { return windows_cost(p, p.outputs[0].shape); },
      .reference = gradient_reference,
      .gradient = [](const Backward& b) -> Values {
        const Window v = geometry_of(b.output_spec(0).shape, b.attributes()).window;
        return {avg_pool2d(b.gradient(0), v)};
      },
      .gradient_reads = {nothing},
      .variants = pooling::variants(gradient_launch<Form::vectors>, gradient_launch<Form::one_channel>, gradient_launch<Form::pixels>),
      .samples =
          [] {
            std::vector<Sample> out;
            for (const auto& [x, v] : cases()) out.push_back({infer({x}, attributes_of(v)), with_shape(attributes_of(v), x.shape)});
            return out;
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({1, 3, 2, 3})}, with_shape(attributes_of({}), {1, 4, 4, 3}), "avg_pool2d_gradient: dy is [1, 3, 2, 3]; accepted: [1, 2, 2, 3]"}};
          },
  };
  return def;
}

const OpDef& adaptive_avg_pool2d_def() {
  static const OpDef def{
      .name = "adaptive_avg_pool2d",
      .doc = "Mean over windows that split the image evenly into given extents.",
      .inputs = {"x"},
      .attributes = {{"extents", Type::integers, "P and Q of the result"}},
      .infer = adaptive_infer,
      .cost =
          [](const Problem& p) {
            return Cost{p.inputs[0].elements(), per_element<0>(p).bytes};
          },
      .reference = adaptive_reference,
      .gradient = [](const Backward& b) -> Values { return {adaptive_spread(b.gradient(0), b.input_shape(0))}; },
      .gradient_reads = {nothing},
      .variants = pooling::variants(adaptive_launch<Form::vectors>, adaptive_launch<Form::one_channel>, adaptive_launch<Form::pixels>),
      .samples =
          [] {
            std::vector<Sample> out;
            for (const auto& [x, y] : adaptive_cases()) out.push_back({{{x}}, {{"extents", Axes{y[1], y[2]}}}});
            return out;
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({1, 4, 4, 3})}, {{"extents", Axes{0, 1}}}, "adaptive_avg_pool2d: extents are [0, 1]; accepted: two numbers of at least 1"},
                {{f32({1, 4, 4, 3})}, {{"extents", Axes{-1, 1}}}, "adaptive_avg_pool2d: extents are [-1, 1]; accepted: two numbers of at least 1"},
                {{f32({1, 0, 4, 3})}, {{"extents", Axes{1, 1}}}, "adaptive_avg_pool2d: x is [1, 0, 4, 3]; accepted: images of at least 1 x 1"}};
          },
  };
  return def;
}

const OpDef& adaptive_avg_pool2d_gradient_def() {
  static const OpDef def{
      .name = "adaptive_avg_pool2d_gradient",
      .doc = "Gradient of adaptive_avg_pool2d: each dy is spread evenly over its window.",
      .inputs = {"dy"},
      .outputs = {"dx"},
      .attributes = {{"shape", Type::shape, "of the images"}},
      .infer = adaptive_gradient_infer,
      .cost =
          [](const Problem& p) {
            return Cost{p.outputs[0].elements(), per_element<0>(p).bytes};
          },
      .reference = adaptive_gradient_reference,
      .gradient = [](const Backward& b) -> Values {
        return {adaptive_avg_pool2d(b.gradient(0), {b.input_shape(0)[1], b.input_shape(0)[2]})};
      },
      .gradient_reads = {nothing},
      .variants =
          pooling::variants(adaptive_gradient_launch<Form::vectors>, adaptive_gradient_launch<Form::one_channel>, adaptive_gradient_launch<Form::pixels>),
      .samples =
          [] {
            std::vector<Sample> out;
            for (const auto& [x, y] : adaptive_cases()) out.push_back({{{y}}, {{"shape", x}}});
            return out;
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({2, 1, 1, 3})}, {{"shape", Shape{1, 4, 4, 3}}}, "adaptive_avg_pool2d_gradient: dy is [2, 1, 1, 3]; accepted: [1, 1, 1, 3]"}};
          },
  };
  return def;
}

Value avg_pool2d(Value x, const Window& window) {
  if (window.dilation != Pair{1, 1})
    throw ShapeError(fmt::format("avg_pool2d: dilation is [{}, {}]; accepted: [1, 1]", window.dilation[0], window.dilation[1]));
  return apply(avg_pool2d_def(), list(std::move(x)), attributes_of(window))[0];
}

Value adaptive_avg_pool2d(Value x, const Pair& extents) {
  return apply(adaptive_avg_pool2d_def(), list(std::move(x)), {{"extents", pooling::list_of(extents)}})[0];
}

}  // namespace gemel::inline ops
