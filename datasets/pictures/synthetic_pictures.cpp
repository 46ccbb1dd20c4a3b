#include "datasets/pictures/synthetic_pictures.h"

#include <algorithm>
#include <array>

#include "datasets/pictures/place_picture.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"

namespace gemel::datasets {
namespace {

constexpr std::int64_t kBlocks = 4;
constexpr float kNoise = 0.4f;

}  // namespace

SyntheticDataset::SyntheticDataset(const Shape& shape, std::int64_t classes, std::int64_t size, std::uint64_t seed, Split split)
    : shape_(shape), classes_(classes), size_(size), seed_(seed), split_(split) {
  PhiloxStream stream(seed, stream_hash("synthetic patterns"));
  patterns_.resize(at(classes * shape[0] * kBlocks * kBlocks));
  for (float& value : patterns_) value = (1 - kNoise) * unit_float(stream.next());
}

std::int64_t SyntheticDataset::label(std::int64_t i) const {
  PhiloxStream stream(seed_, (static_cast<std::uint64_t>(i) << 1 | static_cast<std::uint64_t>(split_)) ^ std::uint64_t{stream_hash("synthetic labels")} << 32);
  return stream.below(narrow<std::uint32_t>(classes_));
}

void SyntheticDataset::copy(std::int64_t i, const Placement& placement, std::span<float> out) const {
  const std::int64_t height = shape_[1], width = shape_[2], plane = height * width;
  const float* pattern = patterns_.data() + label(i) * shape_[0] * kBlocks * kBlocks;
  // One byte of noise an element: a block of the generator serves sixteen.
  thread_local std::vector<std::uint32_t> noise;
  noise.resize(at(round_up(shape_.elements(), 16) / 4));
  const PhiloxKey key{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)};
  const std::uint64_t sample = static_cast<std::uint64_t>(i) << 1 | static_cast<std::uint64_t>(split_);
  for (std::size_t block = 0; block < noise.size() / 4; ++block) {
    const PhiloxCounter bits = philox(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32), stream_hash("synthetic noise")}, key);
    std::copy(bits.begin(), bits.end(), noise.begin() + static_cast<std::ptrdiff_t>(block * 4));
  }
  const std::vector<std::uint32_t>& words = noise;
  const auto pixel = [&](std::int64_t c, std::int64_t k) {
    const std::int64_t element = c * plane + k, y = k / width * kBlocks / height, x = k % width * kBlocks / width;
    const std::uint32_t byte = words[at(element / 4)] >> (element % 4 * 8) & 0xFFu;
    return pattern[(c * kBlocks + y) * kBlocks + x] + kNoise / 256 * static_cast<float>(byte);
  };
  place(
      shape_, placement, pixel, [](std::int64_t) { return 0.0f; }, out);
}

}  // namespace gemel::datasets
