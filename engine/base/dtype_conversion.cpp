#include "engine/base/dtype_conversion.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel {
namespace {

template <class T, class F>
std::vector<std::byte> pack(std::span<const double> values, F convert) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T element = convert(values[i]);
    std::memcpy(out.data() + i * sizeof(T), &element, sizeof(T));
  }
  return out;
}

template <class T, class F>
std::vector<double> unpack(std::span<const std::byte> bytes, F convert) {
  std::vector<double> out(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < out.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = convert(element);
  }
  return out;
}

}  // namespace

float float_from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t bfloat16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float float_from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const float sign = bits & 0x8000 ? -1.f : 1.f;
  if (exponent == 31) return mantissa ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa | 1024), exponent - 25);
}

std::uint16_t half_from_float(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00);
  const float size = std::fabs(value);
  if (size >= 65520.f) return static_cast<std::uint16_t>(sign | 0x7C00);
  int exponent = 0;
  std::frexp(size, &exponent);
  const int unit = std::max(exponent - 11, -24);  // power of two of the last place
  const auto places = static_cast<int>(std::nearbyint(std::ldexp(size, -unit)));
  if (places < 1024) return static_cast<std::uint16_t>(sign | places);
  return static_cast<std::uint16_t>(sign | (((unit + 25) << 10) + places - 1024));
}

double rounded_to(DType dtype, double value) {
  const auto single = static_cast<float>(value);
  if (dtype == DType::float16) return float_from_half(half_from_float(single));
  if (dtype == DType::bfloat16) return float_from_bfloat16(bfloat16_from_float(single));
  return single;
}

std::vector<std::byte> bytes_from_numbers(DType dtype, std::span<const double> values) {
  switch (dtype) {
    case DType::float32:
      return pack<float>(values, [](double v) { return static_cast<float>(v); });
    case DType::float16:
      return pack<std::uint16_t>(values, [](double v) { return half_from_float(static_cast<float>(v)); });
    case DType::bfloat16:
      return pack<std::uint16_t>(values, [](double v) { return bfloat16_from_float(static_cast<float>(v)); });
    case DType::int32:
      return pack<std::int32_t>(values, [](double v) { return static_cast<std::int32_t>(v); });
    case DType::int64:
      return pack<std::int64_t>(values, [](double v) { return static_cast<std::int64_t>(v); });
    case DType::boolean:
      return pack<std::uint8_t>(values, [](double v) { return static_cast<std::uint8_t>(v != 0); });
  }
  throw InternalError("bytes_from_numbers: unknown element type");
}

std::vector<double> numbers_from_bytes(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::float32:
      return unpack<float>(bytes, [](float v) { return static_cast<double>(v); });
    case DType::float16:
      return unpack<std::uint16_t>(bytes, [](std::uint16_t v) { return double{float_from_half(v)}; });
    case DType::bfloat16:
      return unpack<std::uint16_t>(bytes, [](std::uint16_t v) { return double{float_from_bfloat16(v)}; });
    case DType::int32:
      return unpack<std::int32_t>(bytes, [](std::int32_t v) { return static_cast<double>(v); });
    case DType::int64:
      return unpack<std::int64_t>(bytes, [](std::int64_t v) { return static_cast<double>(v); });
    case DType::boolean:
      return unpack<std::uint8_t>(bytes, [](std::uint8_t v) { return v ? 1.0 : 0.0; });
  }
  throw InternalError("numbers_from_bytes: unknown element type");
}

}  // namespace gemel
