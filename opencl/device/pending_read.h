// Private to opencl/: reads that do not wait.
#pragma once
#include <memory>

#include "opencl/device/queues.h"

namespace gemel::opencl {

/// Enqueues a read on the compute queue. @param queues  must outlive the read until its bytes are taken
std::unique_ptr<PendingRead> read_later(Queues& queues, const Region& from);

}  // namespace gemel::opencl
