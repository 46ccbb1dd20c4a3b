// CompilerAbort: a kernel over which the driver's compiler ends its process.
#pragma once
#include "engine/base/error.h"

namespace gemel::opencl {

/// What was asked for did not run, and nothing of it was enqueued; another variant may compute it.
class CompilerAbort : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace gemel::opencl
