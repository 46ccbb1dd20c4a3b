// Private to opencl/ and what measures it: the OpenCL object behind a Kernel.
#pragma once
#include <string>

#include "opencl/device.h"
#include "opencl/handle.h"

namespace gemel::opencl {

class Kernel {
 public:
  KernelHandle handle;
  std::string name;
};

}  // namespace gemel::opencl
