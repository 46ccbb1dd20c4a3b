#include "datasets/pictures/augmentation.h"

#include "engine/base/philox.h"

namespace gemel::datasets {

Placement augmentation(const Draws& draws, std::int64_t sample) {
  constexpr std::int64_t kPad = 4;  // pixels on each side
  const auto low = [](auto value) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)); };
  const auto high = [](auto value) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32); };
  const PhiloxCounter bits = philox({low(sample), high(sample), low(draws.epoch), stream_hash("augment")}, {low(draws.seed), high(draws.seed)});
  // The high half of bits * n is uniform in 0..n-1 to one part in 2^32 / n.
  const auto offset = [](std::uint32_t b) { return static_cast<std::int64_t>(std::uint64_t{b} * (2 * kPad + 1) >> 32) - kPad; };
  return {.top = offset(bits[0]), .left = offset(bits[1]), .flip = (bits[2] >> 31) != 0};
}

}  // namespace gemel::datasets
