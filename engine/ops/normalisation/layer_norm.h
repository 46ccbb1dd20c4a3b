// Shared by layer normalisation's record and its kernels.
#pragma once
#include <vector>

#include "engine/core/op.h"
#include "engine/ops/normalisation/channel_reduction.h"

namespace gemel::inline ops {

/// R rows of n numbers, n being gamma's elements, as [rows, channels].
Columns rows_of(const Shape& x, const Shape& gamma);

// ---- layer_norm_launch.cpp
std::vector<Variant> layer_norm_variants();
std::vector<Variant> layer_norm_backward_variants();

}  // namespace gemel::inline ops
