// CompilerAbort: a kernel over which the driver's compiler ends its process.
#pragma once
#include "engine/base/error.h"

namespace gemel::opencl {

/// The kernel did not run, nor did any of a recording that it belongs to; another variant may compute what was asked for.
class CompilerAbort : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace gemel::opencl
