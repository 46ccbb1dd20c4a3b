// Private to opencl/ and what measures it: the OpenCL object behind a Kernel.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <tuple>

#include "opencl/device/device.h"
#include "opencl/handle.h"

namespace gemel::opencl {

struct RangeOrder {
  bool operator()(const Range& a, const Range& b) const { return std::tie(a.dimensions, a.global, a.local) < std::tie(b.dimensions, b.global, b.local); }
};

struct ProgramText;

class Kernel {
 public:
  KernelHandle handle;
  std::string name;
  std::int64_t most_items = 1;                // of a work-group, where it may be smaller than asked for
  const ProgramText* program = nullptr;       // as long as the kernel
  std::set<Range, RangeOrder> launched = {};  // those that a driver which compiles for each size of a group has met
};

/// The most work-items that a group of the kernel may have: its registers and local memory, and the device, set the limit. No limit where its source
/// requires a size: that is kept, or the driver refuses it.
std::int64_t most_items_of(cl_kernel kernel, cl_device_id device, const DeviceProfile& profile);

/// The range in groups of at most so many work-items: the longest axis of a group is halved (an odd one becomes 1) until they fit.
Range in_groups_of(Range range, std::int64_t most_items);

}  // namespace gemel::opencl
