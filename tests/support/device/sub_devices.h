// Whether a device can be divided into parts: PoCL's can, but for builds of it with other threads than its own, such as Debian's since version 7.
#pragma once
#include "opencl/device/device.h"
#include "opencl/handle.h"

namespace gemel::testing {

inline bool divides(opencl::Device& device) {
  cl_uint parts = 0;
  device.native(
      [&](void* queue, void**) {
        cl_device_id id = nullptr;
        opencl::check(clGetCommandQueueInfo(static_cast<cl_command_queue>(queue), CL_QUEUE_DEVICE, sizeof id, &id, nullptr), "clGetCommandQueueInfo");
        parts = opencl::device_info<cl_uint>(id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES);
      },
      "parts");
  return device.profile().is_cpu() && parts >= 2;
}

}  // namespace gemel::testing
