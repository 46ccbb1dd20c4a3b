// Private to opencl/ and what measures it: the OpenCL object behind a Kernel.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "opencl/device.h"
#include "opencl/handle.h"

namespace gemel::opencl {

class Kernel {
 public:
  KernelHandle handle;
  std::string name;
  std::vector<Range> launched = {};  // those that a driver which compiles for each size of a group has met; kept where processes take turns
};

}  // namespace gemel::opencl
