// Augmentation of pictures: the random crop and the mirroring that a sample gets in an epoch.
#pragma once
#include <cstdint>

#include "datasets/loading/dataset.h"

namespace gemel::datasets {

/// Placement of a picture in a batch: out[y, x] = picture[y + top, (flip ? W - 1 - x : x) + left], black where that lies outside the picture.
struct Placement {
  std::int64_t top = 0, left = 0;
  bool flip = false;
};

/// Draws the standard augmentation of a sample: a crop of the picture's own size out of the picture padded by four black pixels, mirrored half of the time.
Placement augmentation(const Draws& draws, std::int64_t sample);

}  // namespace gemel::datasets
