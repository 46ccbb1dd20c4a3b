// A fast hash that detects damage and changes. Not cryptographic.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace gemel {

/// Hash in the manner of FNV-1a, eight bytes at a time. @param hash  result for the bytes before, to hash in parts
std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t hash = 14695981039346656037ull);
inline std::uint64_t hash_of(std::string_view text, std::uint64_t hash = 14695981039346656037ull) { return hash_of(std::as_bytes(std::span(text)), hash); }

}  // namespace gemel
