// Shared by max and average pooling.
// Legend: x [N, H, W, C], y [N, P, Q, C], windows of R x S taps.
#pragma once
#include <vector>

#include "engine/core/op.h"
#include "engine/device/launch.h"
#include "engine/ops/ops.h"

namespace gemel::pooling {

struct Geometry {
  std::int64_t n, h, w, c, p, q;
  Window window;
  std::int64_t taps() const { return window.kernel[0] * window.kernel[1]; }
};

/// Reads the attributes kernel, stride, padding, ceil_mode and, if present, dilation and count_padding.
Geometry geometry_of(const Shape& x, const Attributes& attributes);
/// Checks the input and the attributes.
/// @throws ShapeError for what the operator does not accept
Geometry checked_geometry(const char* op, const Spec& x, const Attributes& attributes);
std::vector<AttributeDef> window_attributes();
std::vector<std::int64_t> list_of(const Pair& pair);

/// Calls f(tap, index of x's pixel, index of y's pixel) for every tap inside the image, in the window's order.
template <class F>
void each_tap(const Geometry& g, F f) {
  const Window& v = g.window;
  for (std::int64_t i = 0; i < g.n * g.p * g.q; ++i)
    for (std::int64_t tap = 0; tap < g.taps(); ++tap) {
      const std::int64_t h = i / g.q % g.p * v.stride[0] - v.padding[0] + tap / v.kernel[1] * v.dilation[0];
      const std::int64_t w = i % g.q * v.stride[1] - v.padding[1] + tap % v.kernel[1] * v.dilation[1];
      if (h >= 0 && h < g.h && w >= 0 && w < g.w) f(tap, (i / (g.p * g.q) * g.h + h) * g.w + w, i);
    }
}

/// What a work-item makes: vectors of channels, single channels, or, where items run in lanes, some channels of a pixel.
enum class Form { vectors, one_channel, pixels };
/// Returns the variants of a pooling operator, a launch of each form.
std::vector<Variant> variants(void (*vectors)(Launch&), void (*one_channel)(Launch&), void (*pixels)(Launch&));

/// A kernel of pooling.cl over the pixels of `out`.
struct Call {
  const char* kernel;
  Form form;
  const Shape& out;
  const Geometry* fixed = nullptr;  // compile-time channels and window of a CPU kernel by single channels
};
void run(const Launch& launch, const Call& call, Arguments arguments);
/// Returns the arguments `first`, followed by n h w c p q, kernel, stride, padding, dilation (all int).
Arguments arguments_of(std::initializer_list<opencl::Argument> first, const Geometry& g);

}  // namespace gemel::pooling
