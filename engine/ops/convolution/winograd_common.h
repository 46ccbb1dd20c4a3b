// Winograd's algorithm F(4x4, 3x3) (opencl/kernels/lib/ops/winograd.clh): what CPUs and GPUs share.
#pragma once
#include <cstdint>

#include "engine/ops/convolution/convolution_common.h"

namespace gemel::convolution::winograd {

inline constexpr std::int64_t kPoints = 36;
inline constexpr std::int64_t kTile = 4;   // outputs of a tile along each axis
inline constexpr std::int64_t kPatch = 6;  // inputs that it reads

/// The convolution that a direction asks for, seen as y = x * w.
struct Extents {
  std::int64_t n, height, width, inner;  // of what is read
  std::int64_t out_height, out_width, outer;
  std::int64_t top, left;  // padding

  std::int64_t tile_rows() const { return ceil_div(out_height, kTile); }
  std::int64_t tile_columns() const { return ceil_div(out_width, kTile); }
  std::int64_t tiles() const { return n * tile_rows() * tile_columns(); }
};
inline Extents extents_of(Direction d, const Geometry& g) {
  if (d == Direction::input) return {g.n, g.p, g.q, g.k, g.h, g.w, g.c, 2 - g.padding[0], 2 - g.padding[1]};
  return {g.n, g.h, g.w, g.c, g.p, g.q, g.k, g.padding[0], g.padding[1]};
}

/// Why the algorithm does not compute it; nullptr: it does.
inline const char* unless_3x3(const Geometry& g) {
  if (g.groups != 1) return "it has several groups";
  if (g.r != 3 || g.s != 3 || g.stride != Pair{1, 1} || g.dilation != Pair{1, 1}) return "its window is not 3x3 with stride and dilation 1";
  return g.n == 0 || g.c == 0 || g.k == 0 ? "an extent is 0" : nullptr;
}

}  // namespace gemel::convolution::winograd
