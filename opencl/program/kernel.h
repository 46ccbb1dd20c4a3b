// Private to opencl/ and its benchmarks: the OpenCL object behind a Kernel.
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
  std::int64_t most_items = 1;                // largest work-group; larger requests are reduced to it
  const ProgramText* program = nullptr;       // lives as long as the kernel
  std::set<Range, RangeOrder> launched = {};  // ranges compiled so far, for drivers that compile for each work-group size
};

/// Largest work-group of a kernel, in work-items: limited by its registers, its local memory and the device. No limit if the source of the kernel requires
/// a size.
std::int64_t most_items_of(cl_kernel kernel, cl_device_id device, const DeviceProfile& profile);

/// Reduces the work-groups of a range to at most `most_items` work-items: halves the longest axis (an odd one becomes 1) until they fit.
Range in_groups_of(Range range, std::int64_t most_items);

}  // namespace gemel::opencl
