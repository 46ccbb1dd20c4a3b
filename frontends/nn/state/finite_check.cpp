#include "frontends/nn/state/finite_check.h"

#include <fmt/format.h>

#include <cstring>

namespace gemel::nn {
namespace {

/// Where all bits of the exponent are set, the number is infinite or none.
template <class Bits>
std::optional<std::int64_t> first_with(Bits exponent, std::span<const std::byte> elements) {
  for (std::size_t i = 0; i < elements.size(); i += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, elements.data() + i, sizeof bits);
    if ((bits & exponent) == exponent) return static_cast<std::int64_t>(i / sizeof bits);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> first_not_finite(DType dtype, std::span<const std::byte> elements) {
  constexpr std::uint32_t kFloat32 = 0x7F80'0000;
  constexpr std::uint16_t kFloat16 = 0x7C00, kBfloat16 = 0x7F80;
  if (dtype == DType::float32) return first_with(kFloat32, elements);
  if (dtype == DType::float16) return first_with(kFloat16, elements);
  if (dtype == DType::bfloat16) return first_with(kBfloat16, elements);
  return std::nullopt;
}

std::optional<std::string> not_finite_in(std::span<const NamedTensor> tensors) {
  for (const NamedTensor& t : tensors)
    if (const auto element = first_not_finite(t.spec.dtype, t.data)) return fmt::format("{} is not finite at its element {}", t.name, *element);
  return std::nullopt;
}

}  // namespace gemel::nn
