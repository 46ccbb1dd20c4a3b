// Whether numbers are finite: weights before they are written, outputs before they are shown.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/base/dtype.h"
#include "engine/files/safetensors.h"

namespace gemel::nn {

/// The first element that is infinite or no number; none where all are finite, or of a type that is no floating one.
std::optional<std::int64_t> first_not_finite(DType dtype, std::span<const std::byte> elements);

/// Of several tensors, in words: `fc1.weight is not finite at its element 7`. None where all are.
std::optional<std::string> not_finite_in(std::span<const NamedTensor> tensors);

}  // namespace gemel::nn
