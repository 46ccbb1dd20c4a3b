#include "engine/ops/pooling/pooling_common.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/base/error.h"
#include "engine/ops/common.h"

namespace gemel::pooling {
namespace {

constexpr std::int64_t kLocal = 16;
constexpr std::int64_t kSpan = 16;          // vectors that a work-item of a CPU makes: where they lie is then found by counting, not dividing
constexpr std::int64_t kUnrolledTaps = 25;  // of a window whose taps are each compiled by themselves

/// In ceil mode a last, partial window counts if it starts inside the image or the padding before it.
std::int64_t output_extent(std::int64_t in, const Window& v, std::size_t axis) {
  const std::int64_t stride = v.stride[axis];
  const std::int64_t room = in + 2 * v.padding[axis] - v.dilation[axis] * (v.kernel[axis] - 1) - 1 + (v.ceil_mode ? stride - 1 : 0);
  if (room < 0) return 0;
  const std::int64_t out = room / stride + 1;
  return v.ceil_mode && (out - 1) * stride >= in + v.padding[axis] ? out - 1 : out;
}

}  // namespace

std::vector<std::int64_t> list_of(const Pair& pair) { return {pair[0], pair[1]}; }

Geometry geometry_of(const Shape& x, const Attributes& a) {
  const auto pair = [&](const char* name) { return Pair{a.integers(name)[0], a.integers(name)[1]}; };
  Geometry g{x[0], x[1], x[2], x[3], 0, 0, {.kernel = pair("kernel"), .stride = pair("stride"), .padding = pair("padding")}};
  if (a.has("dilation")) g.window.dilation = pair("dilation");
  if (a.has("count_padding")) g.window.count_padding = a.boolean("count_padding");
  g.window.ceil_mode = a.boolean("ceil_mode");
  g.p = output_extent(g.h, g.window, 0);
  g.q = output_extent(g.w, g.window, 1);
  return g;
}

Geometry checked_geometry(const char* op, const Spec& x, const Attributes& a) {
  check_rank(op, "x", x, 4);
  for (const char* name : {"kernel", "stride"}) check_pair(op, a, name, 1);
  check_pair(op, a, "padding", 0);
  if (a.has("dilation")) check_pair(op, a, "dilation", 1);
  const Geometry g = geometry_of(x.shape, a);
  const Window& v = g.window;
  if (2 * v.padding[0] > v.kernel[0] || 2 * v.padding[1] > v.kernel[1])
    throw ShapeError(fmt::format("{}: padding is [{}, {}] for a kernel of {} x {}; accepted: at most half the kernel", op, v.padding[0], v.padding[1],
                                 v.kernel[0], v.kernel[1]));
  if (g.p < 1 || g.q < 1)
    throw ShapeError(fmt::format("{}: the window spans {} x {}, the padded x {} has {} x {}; accepted: a window up to that", op,
                                 (v.kernel[0] - 1) * v.dilation[0] + 1, (v.kernel[1] - 1) * v.dilation[1] + 1, to_string(x.shape), g.h + 2 * v.padding[0],
                                 g.w + 2 * v.padding[1]));
  return g;
}

std::vector<AttributeDef> window_attributes() {
  return {{"kernel", Type::integers, "extents of the window along H and W"},
          {"stride", Type::integers, "steps between windows along H and W"},
          {"padding", Type::integers, "on both sides of H and of W"},
          {"ceil_mode", Type::boolean, "a last, partial window counts"}};
}

std::vector<Variant> variants(void (*vectors)(Launch&), void (*one_channel)(Launch&), void (*pixels)(Launch&)) {
  const auto declines_vectors = [](const Problem& p, const opencl::DeviceProfile&) {
    return p.outputs[0].shape[3] % 8 ? "the channels are not a multiple of 8" : nullptr;
  };
  const auto declines_pixels = [](const Problem& p, const opencl::DeviceProfile&) {
    const Shape &x = p.inputs[0].shape, &y = p.outputs[0].shape;  // or the other way round
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    return std::max({x.product(1, 4), y.product(1, 4), (x[1] + 1) * (y[1] + 1), (x[2] + 1) * (y[2] + 1)}) <= kMost ? nullptr
                                                                                                                   : "an image has 2^31 elements or more";
  };
  return {{.name = "vectors", .doc = "vectors of 16 or 8 channels", .target = Target::cpu, .declines = declines_vectors, .launch = vectors},
          {.name = "pixels",
           .doc = "some channels of a pixel, rows and images along dimensions of their own",
           .target = Target::gpu,
           .declines = declines_pixels,
           .launch = pixels},
          {.name = "one_channel", .doc = "one channel at a time", .launch = one_channel}};
}

namespace {

/// Whether windows lie side by side along an axis: none overlaps another or leaves the image, and there is none after the last that would begin
/// in it. Then no tap needs a check.
bool tiles(const Window& v, std::size_t axis, std::int64_t in, std::int64_t out) {
  const std::int64_t stride = v.stride[axis], span = v.dilation[axis] * (v.kernel[axis] - 1);
  return v.padding[axis] == 0 && span < stride && (out - 1) * stride + span < in && (in - 1) / stride < out;
}

/// No extent of the images is among them: images of all sizes share a few programs.
std::string constants_of(const Geometry& g) {
  const Window& v = g.window;
  return fmt::format(
      " -DFIXED_C={} -DFIXED_R={} -DFIXED_S={} -DFIXED_SH={} -DFIXED_SW={} -DFIXED_PH={} -DFIXED_PW={} -DFIXED_DH={} -DFIXED_DW={} -DTILED_H={:d} "
      "-DTILED_W={:d}",
      g.c, v.kernel[0], v.kernel[1], v.stride[0], v.stride[1], v.padding[0], v.padding[1], v.dilation[0], v.dilation[1], tiles(v, 0, g.h, g.p),
      tiles(v, 1, g.w, g.q));
}

}  // namespace

void run(const Launch& l, const Call& call, Arguments arguments) {
  const auto& [kernel, form, out, fixed] = call;
  if (form == Form::pixels) {
    const std::int64_t width = out[3] % 4 == 0 ? 4 : 1;
    arguments.add(static_cast<std::int32_t>(out[0]));
    return l.run("gpu/pooling.cl", kernel, range_of_pixels({out[2] * out[3] / width, out[1], out[0]}, l.profile()), arguments,
                 fmt::format("-DWIDTH={}", width));
  }
  if (fixed && form == Form::one_channel && fixed->taps() <= kUnrolledTaps && l.profile().runs_vectors()) {
    arguments.add(out.elements());
    return l.run("any/pooling.cl", kernel, opencl::range1(out.product(0, 2), 1), arguments, "-DWIDTH=1" + constants_of(*fixed));
  }
  const std::int64_t width = form == Form::one_channel ? 1 : out[3] % 16 == 0 ? 16 : 8, items = out.elements() / width;
  const std::int64_t span = l.profile().runs_vectors() ? kSpan : 1;
  arguments.add(items);
  l.run("any/pooling.cl", kernel, opencl::range1(round_up(ceil_div(items, span), kLocal), kLocal), arguments, fmt::format("-DWIDTH={} -DSPAN={}", width, span));
}

Arguments arguments_of(std::initializer_list<opencl::Argument> first, const Geometry& g) {
  const Window& v = g.window;
  return {first,
          ints(g.n, g.h, g.w, g.c, g.p, g.q, v.kernel[0], v.kernel[1], v.stride[0], v.stride[1], v.padding[0], v.padding[1], v.dilation[0], v.dilation[1])};
}

}  // namespace gemel::pooling
