// Pictures of a test's own, in NumPy's files.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "datasets/npy.h"

namespace gemel::testing {

/// Writes images.npy of pictures of 3x32x32, each pixel the same, and labels.npy into a folder, which is made.
inline void write_pictures(const std::filesystem::path& folder, std::int64_t images, const std::vector<std::int64_t>& labels, float pixel = 0.5f) {
  std::filesystem::create_directories(folder);
  const std::vector<float> pixels(static_cast<std::size_t>(images) * 3 * 32 * 32, pixel);
  datasets::write_npy(folder / "images.npy", f32({images, 3, 32, 32}), std::as_bytes(std::span(pixels)));
  datasets::write_npy(folder / "labels.npy", i64({static_cast<std::int64_t>(labels.size())}), std::as_bytes(std::span(labels)));
}

}  // namespace gemel::testing
