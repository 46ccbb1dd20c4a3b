// Numbers on the host to and from an element type's bytes.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/dtype.h"

namespace gemel {

/// Rounds to nearest, ties to even; a boolean is "not 0".
std::vector<std::byte> bytes_from_numbers(DType dtype, std::span<const double> values);
std::vector<double> numbers_from_bytes(DType dtype, std::span<const std::byte> bytes);

/// The nearest number that a floating type holds.
double rounded_to(DType dtype, double value);

/// bfloat16 and IEEE half precision, as bits.
float float_from_bfloat16(std::uint16_t bits);
std::uint16_t bfloat16_from_float(float value);
float float_from_half(std::uint16_t bits);
std::uint16_t half_from_float(float value);

}  // namespace gemel
