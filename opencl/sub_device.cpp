#include "opencl/sub_device.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/numbers.h"

namespace gemel::opencl {
namespace {

std::vector<cl_device_id> equal_parts(cl_device_id device, int threads, int count) {
  const cl_device_partition_property wanted[] = {CL_DEVICE_PARTITION_EQUALLY, threads, 0};
  std::vector<cl_device_id> parts(at(count));
  check(clCreateSubDevices(device, wanted, static_cast<cl_uint>(count), parts.data(), nullptr), "clCreateSubDevices", fmt::format("{} threads", threads));
  return parts;
}

/// Parts that nobody uses at the moment.
struct Unused {
  std::mutex mutex;
  std::map<std::tuple<cl_device_id, int, int>, std::vector<cl_device_id>> parts;
};
Unused& unused() {
  static auto* const all = std::make_unique<Unused>().release();  // never destroyed: parts are given back until the process ends
  return *all;
}

}  // namespace

int count_parts(cl_device_id device, int threads) {
  const cl_device_partition_property wanted[] = {CL_DEVICE_PARTITION_EQUALLY, threads, 0};
  cl_uint count = 0;
  check(clCreateSubDevices(device, wanted, 0, nullptr, &count), "clCreateSubDevices", fmt::format("{} threads", threads));
  return static_cast<int>(count);
}

DevicePart::DevicePart(cl_device_id device, int threads, int index) : which_(device, threads, index) {
  const std::lock_guard lock(unused().mutex);
  std::vector<cl_device_id>& like_this = unused().parts[which_];
  if (like_this.empty()) {
    const std::vector<cl_device_id> parts = equal_parts(device, threads, count_parts(device, threads));
    for (int i = 0; i < static_cast<int>(parts.size()); ++i) unused().parts[{device, threads, i}].push_back(parts[at(i)]);
  }
  part_ = like_this.back();
  like_this.pop_back();
}

DevicePart::DevicePart(DevicePart&& other) noexcept : which_(other.which_), part_(std::exchange(other.part_, nullptr)) {}

DevicePart& DevicePart::operator=(DevicePart&& other) noexcept {
  std::swap(which_, other.which_);
  std::swap(part_, other.part_);
  return *this;
}

DevicePart::~DevicePart() {
  if (!part_) return;
  const std::lock_guard lock(unused().mutex);
  unused().parts[which_].push_back(part_);
}

}  // namespace gemel::opencl
