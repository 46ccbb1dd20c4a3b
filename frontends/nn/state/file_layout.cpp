#include "frontends/nn/state/file_layout.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::nn {
namespace {

constexpr std::int64_t kTile = 32;  // 32 x 32 floats: reads and writes of a tile stay in the first cache

/// to[c, b, a] = from[a, b, c], which is all that the layouts need: linear is [out, 1, in], convolution [K, C, R S].
std::vector<std::byte> swap_ends(std::span<const std::byte> from, std::array<std::int64_t, 3> extents) {
  constexpr std::int64_t width = sizeof(float);
  const auto [A, B, C] = extents;
  if (static_cast<std::int64_t>(from.size()) != A * B * C * width) throw InternalError("layout: bytes do not match the shape");
  std::vector<std::byte> to(from.size());
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t a0 = 0; a0 < A; a0 += kTile)
      for (std::int64_t c0 = 0; c0 < C; c0 += kTile)
        for (std::int64_t a = a0; a < std::min(A, a0 + kTile); ++a)
          for (std::int64_t c = c0; c < std::min(C, c0 + kTile); ++c)
            std::memcpy(&to[at(((c * B + b) * A + a) * width)], &from[at(((a * B + b) * C + c) * width)], at(width));
  return to;
}

/// The file's shape as [A, B, C].
std::array<std::int64_t, 3> file_extents(const Spec& spec, FileLayout layout) {
  if (spec.dtype != DType::float32) throw InternalError("layout: " + to_string(spec) + " is not float32");
  const Shape file = file_shape(spec.shape, layout);
  if (layout == FileLayout::linear) return {file[0], 1, file[1]};
  if (layout == FileLayout::convolution_1d) return {file[0], file[1], file[2]};
  return {file[0], file[1], file[2] * file[3]};
}

}  // namespace

std::vector<std::byte> to_file_layout(const Spec& spec, FileLayout layout, std::span<const std::byte> memory) {
  if (layout == FileLayout::same) return {memory.begin(), memory.end()};
  const auto [A, B, C] = file_extents(spec, layout);
  return swap_ends(memory, {C, B, A});
}

std::vector<std::byte> from_file_layout(const Spec& spec, FileLayout layout, std::span<const std::byte> file) {
  if (layout == FileLayout::same) return {file.begin(), file.end()};
  return swap_ends(file, file_extents(spec, layout));
}

}  // namespace gemel::nn
