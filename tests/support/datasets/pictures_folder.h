// Pictures of a test's own, in NumPy's files.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "datasets/formats/npy.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {

/// Writes images.npy of pictures of 3x32x32, each pixel the same, and labels.npy into a folder, which is made.
inline void write_pictures(const std::filesystem::path& folder, std::int64_t images, const std::vector<std::int64_t>& labels, float pixel = 0.5f) {
  std::filesystem::create_directories(folder);
  const std::vector<float> pixels(static_cast<std::size_t>(images) * 3 * 32 * 32, pixel);
  datasets::write_npy(folder / "images.npy", f32({images, 3, 32, 32}), std::as_bytes(std::span(pixels)));
  datasets::write_npy(folder / "labels.npy", i64({static_cast<std::int64_t>(labels.size())}), std::as_bytes(std::span(labels)));
}

/// Writes an .npy of so many pictures of 3x32x32, all zeros: a header and a hole, which takes no room on the disk.
inline void write_hollow_pictures(const std::filesystem::path& npy, std::uint32_t images) {
  constexpr std::uintmax_t kPictureBytes = std::uintmax_t{3} * 32 * 32 * sizeof(float);
  const std::string entries = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(images) + ", 3, 32, 32), }\n";
  std::string header = "\x93NUMPY\x01";
  for (const std::size_t byte : {std::size_t{0}, entries.size() & 0xff, entries.size() >> 8}) header += static_cast<char>(byte);
  header += entries;
  write_text(npy, header);
  std::filesystem::resize_file(npy, header.size() + images * kPictureBytes);
}

}  // namespace gemel::testing
