// Overflow-checked size of a dense array, for extents that come from a file or a user.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gemel {

/// Bytes of a dense array. Empty if an extent is negative, or if the product of the non-zero extents does not fit in 63 bits:
/// later code multiplies extents in any order, so a zero must not hide an overflow.
inline std::optional<std::int64_t> checked_bytes(std::span<const std::int64_t> extents, std::size_t element_bytes) {
  std::int64_t product = static_cast<std::int64_t>(element_bytes);
  bool empty = false;
  for (const std::int64_t extent : extents) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) empty = true;
    if (extent != 0 && __builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  }
  return empty ? 0 : product;
}

}  // namespace gemel
