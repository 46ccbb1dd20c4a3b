#include "engine/base/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gemel {

std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t hash) {
  while (!bytes.empty()) {
    std::uint64_t word = std::uint64_t{bytes.size()} << 56;  // a short end is told from one with zeros behind it
    const std::size_t taken = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), taken);
    hash = std::rotl((hash ^ word) * 1099511628211ull, 29);
    bytes = bytes.subspan(taken);
  }
  return hash;
}

}  // namespace gemel
