// Where tests may hold work back behind a fence.
#pragma once
#include "opencl/device.h"

namespace gemel::testing {

/// Mesa 22.3 now and then blocks the thread that enqueues behind a fence, for ever: its queue keeps a lock while it waits.
inline bool blocks_behind_fences(const opencl::Device& device) { return device.profile().platform == "rusticl"; }
inline constexpr const char* kBlocks = "this driver may block whoever enqueues behind a fence";

}  // namespace gemel::testing
