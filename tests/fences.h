// Where tests may hold work back behind a fence.
#pragma once
#include "opencl/device.h"

namespace gemel::testing {

inline bool blocks_behind_fences(const opencl::Device& device) { return device.profile().blocks_behind_fences; }
inline constexpr const char* kBlocks = "this driver may block whoever enqueues behind a fence";

}  // namespace gemel::testing
