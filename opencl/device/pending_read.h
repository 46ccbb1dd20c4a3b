// Private to opencl/: reads that do not wait.
#pragma once
#include <memory>
#include <span>

#include "opencl/device/queues.h"
#include "opencl/device/staging.h"

namespace gemel::opencl {

/// Enqueues a read of some regions on the compute queue: by one transfer where there is staging memory for it.
/// @param queues  must outlive the read until its bytes are taken
std::unique_ptr<PendingRead> read_later(Queues& queues, const Stagings& staging, std::span<const Region> from);

}  // namespace gemel::opencl
