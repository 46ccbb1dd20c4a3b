// A quick hash of bytes, to see damage and changes; not against an adversary.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace gemel {

/// Follows every byte, eight at a time in the manner of FNV-1a.
std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t hash = 14695981039346656037ull);
inline std::uint64_t hash_of(std::string_view text, std::uint64_t hash = 14695981039346656037ull) { return hash_of(std::as_bytes(std::span(text)), hash); }

}  // namespace gemel
