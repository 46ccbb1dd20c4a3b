// Private to opencl/: reads on their way to the host.
#pragma once
#include <memory>

#include "opencl/device/queues.h"

namespace gemel::opencl {

/// Enqueues a read where kernels are. @param queues  have to outlive it until its bytes are taken
std::unique_ptr<PendingRead> read_later(Queues& queues, const Region& from);

}  // namespace gemel::opencl
