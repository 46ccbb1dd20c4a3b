// Conversion of numbers on the host to and from the bytes of an element type.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/dtype.h"

namespace gemel {

/// Converts numbers to bytes: rounds to nearest, ties to even; a boolean is true for any value but 0.
std::vector<std::byte> bytes_from_numbers(DType dtype, std::span<const double> values);
/// Converts bytes to numbers, exactly but for int64 beyond 53 bits.
std::vector<double> numbers_from_bytes(DType dtype, std::span<const std::byte> bytes);

/// The number of a floating type that is nearest to `value`.
double rounded_to(DType dtype, double value);

/// Conversion of bfloat16 and IEEE half precision, given as bits.
float float_from_bfloat16(std::uint16_t bits);
std::uint16_t bfloat16_from_float(float value);
float float_from_half(std::uint16_t bits);
std::uint16_t half_from_float(float value);

}  // namespace gemel
