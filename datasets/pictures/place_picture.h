// Copies one picture from planes [C, H, W] to interleaved channels [H, W, C] with a placement.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "datasets/pictures/augmentation.h"
#include "engine/base/shape.h"

namespace gemel::datasets {

/// Writes one placed picture to `out`, [H, W, C].
/// @param pixel  (channel, index in its plane) -> float
/// @param black  channel -> float, for pixels outside the picture
template <class Pixel, class Black>
void place(const Shape& shape, const Placement& placement, const Pixel& pixel, const Black& black, std::span<float> out) {
  const std::int64_t channels = shape[0], height = shape[1], width = shape[2];
  // The columns of the crop that lie in the picture are [from, to).
  const std::int64_t from = std::clamp<std::int64_t>(-placement.left, 0, width);
  const std::int64_t to = std::clamp<std::int64_t>(width - placement.left, from, width);
  const std::int64_t step = placement.flip ? -channels : channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    const float outside = black(c);
    for (std::int64_t y = 0; y < height; ++y) {
      float* first = out.data() + (y * width + (placement.flip ? width - 1 : 0)) * channels + c;
      const std::int64_t row = y + placement.top;
      const bool inside = row >= 0 && row < height;
      const std::int64_t begin = inside ? from : width, end = inside ? to : width;
      for (std::int64_t x = 0; x < begin; ++x) first[x * step] = outside;
      for (std::int64_t x = begin; x < end; ++x) first[x * step] = pixel(c, row * width + x + placement.left);
      for (std::int64_t x = end; x < width; ++x) first[x * step] = outside;
    }
  }
}

}  // namespace gemel::datasets
