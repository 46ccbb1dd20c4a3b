// CompilerAbort: error for a kernel that crashes the driver's compiler.
#pragma once
#include "engine/base/error.h"

namespace gemel::opencl {

/// The kernel did not run, nor did any other kernel of its recording. Another variant may compute the problem.
class CompilerAbort : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace gemel::opencl
