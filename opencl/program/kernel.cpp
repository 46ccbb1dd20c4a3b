#include "opencl/program/kernel.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace gemel::opencl {

std::int64_t most_items_of(cl_kernel kernel, cl_device_id device, const DeviceProfile& profile) {
  std::size_t required[3] = {}, most = 0;
  check(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof required, required, nullptr), "clGetKernelWorkGroupInfo");
  if (required[0] > 0) return std::numeric_limits<std::int64_t>::max();
  check(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, nullptr), "clGetKernelWorkGroupInfo");
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(most), 1, profile.max_group_size);
}

Range in_groups_of(Range range, std::int64_t most_items) {
  if (range.local[0] == 0) return range;  // the driver's choice
  const auto begin = range.local.begin(), end = begin + range.dimensions;
  while (std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>()) > most_items) {
    std::int64_t& longest = *std::max_element(begin, end);
    longest = longest % 2 == 0 ? longest / 2 : 1;
  }
  return range;
}

}  // namespace gemel::opencl
