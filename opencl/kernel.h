// Private to opencl/ and what measures it: the OpenCL object behind a Kernel.
#pragma once
#include <set>
#include <string>
#include <tuple>

#include "opencl/device.h"
#include "opencl/handle.h"

namespace gemel::opencl {

struct RangeOrder {
  bool operator()(const Range& a, const Range& b) const { return std::tie(a.dimensions, a.global, a.local) < std::tie(b.dimensions, b.global, b.local); }
};

class Kernel {
 public:
  KernelHandle handle;
  std::string name;
  std::set<Range, RangeOrder> launched = {};  // those that a driver which compiles for each size of a group has met
};

}  // namespace gemel::opencl
