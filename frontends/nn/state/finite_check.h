// Checks that numbers are finite: weights before they are written, outputs before they are shown.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/base/dtype.h"
#include "engine/files/safetensors.h"

namespace gemel::nn {

/// Returns the index of the first element that is infinite or NaN; none if all are finite, or the type is not floating-point.
std::optional<std::int64_t> first_not_finite(DType dtype, std::span<const std::byte> elements);

/// Returns the error text for the first tensor that is not finite: `fc1.weight is not finite at its element 7`; none if all are finite.
std::optional<std::string> not_finite_in(std::span<const NamedTensor> tensors);

}  // namespace gemel::nn
