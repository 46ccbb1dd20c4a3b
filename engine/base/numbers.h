// Integer helpers: checked narrowing, indices, division that rounds up.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "engine/base/error.h"

namespace gemel {

/// Converts a signed index, which must not be negative, to the index type of standard containers.
template <class I>
constexpr std::size_t at(I i) {
  return static_cast<std::size_t>(i);
}

/// Converts between integer types. @throws InternalError if the value does not fit
template <class To, class From>
constexpr To narrow(From value) {
  if (!std::in_range<To>(value)) throw InternalError("narrow: " + std::to_string(value) + " does not fit");
  return static_cast<To>(value);
}

template <class T>
std::span<const std::byte> bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace gemel
