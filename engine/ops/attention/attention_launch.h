// Shared by the variants of attention: what each kernel takes beside its tensors. Legend: engine/ops/attention/attention.h.
#pragma once
#include <cstdint>

#include "engine/device/launch.h"
#include "engine/ops/attention/attention.h"

namespace gemel::inline ops {

/// Numbers with which kernels draw dropout; threshold 0: nothing is dropped.
struct AttentionDraws {
  std::int64_t stream;
  Keyed keyed;
  float threshold, scale;
};
AttentionDraws draws_of(const Launch& l, AttentionInputsAt in);
/// The random state; where nothing is dropped any memory, which is not read.
const opencl::Region& random_state_of(const Launch& l, AttentionInputsAt in);

/// Bytes of delta, a number a query, which the first kernel of the gradients on GPUs leaves for the second.
std::int64_t delta_bytes(const Problem& p, const opencl::DeviceProfile& profile);

// ---- group_tiles.cpp
Variant group_tiles_variant();
Variant group_tiles_backward_variant();

}  // namespace gemel::inline ops
