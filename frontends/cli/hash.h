// A quick hash of bytes, to see damage and changes; not against an adversary.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace gemel::cli {

/// Follows every byte, eight at a time in the manner of FNV-1a.
std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t hash = 14695981039346656037ull);

}  // namespace gemel::cli
