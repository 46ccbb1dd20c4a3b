// Converts float16 and bfloat16 to and from float32 without branches, so that loops vectorise. Rounds to nearest, ties to even.
// Source: F. Giesen, Half to float done quic, 2012.
#pragma once
#include <bit>
#include <cstdint>

namespace gemel::parallel {

inline float widen_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline std::uint16_t narrow_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16, nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

inline float widen_float16(std::uint16_t half) {
  constexpr std::uint32_t kExponent = 0x7C00u << 13, kBias = (127u - 15u) << 23;
  const std::uint32_t bits = (half & 0x7FFFu) << 13, exponent = bits & kExponent;
  const std::uint32_t normal = bits + kBias, special = normal + ((128u - 16u) << 23);
  const auto subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(normal + (1u << 23)) - std::bit_cast<float>(113u << 23));
  const std::uint32_t size = exponent == kExponent ? special : exponent == 0 ? subnormal : normal;
  return std::bit_cast<float>(size | (half & 0x8000u) << 16);
}

inline std::uint16_t narrow_float16(float value) {
  constexpr std::uint32_t kInfinity = 255u << 23, kTooLarge = (127u + 16u) << 23, kLeastNormal = 113u << 23, kMagic = (127u - 15u + 23u - 10u + 1u) << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t size = bits & 0x7FFFFFFFu;
  const std::uint32_t special = size > kInfinity ? 0x7E00u : 0x7C00u;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + std::bit_cast<float>(kMagic)) - kMagic;
  const std::uint32_t normal = (size + ((size >> 13) & 1u) + 0xFFFu - ((127u - 15u) << 23)) >> 13;
  const std::uint32_t out = size >= kTooLarge ? special : size < kLeastNormal ? subnormal : normal;
  return static_cast<std::uint16_t>(out | (bits >> 16 & 0x8000u));
}

}  // namespace gemel::parallel
