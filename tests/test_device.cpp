#include "tests/test_device.h"

#include <cstdlib>

namespace gemel::testing {

opencl::Device& test_device() {
  static const auto device = [] {
    opencl::DeviceOptions options;
    if (const char* platform = std::getenv("GEMEL_PLATFORM")) options.platform = platform;
    if (const char* name = std::getenv("GEMEL_DEVICE")) options.device = name;
    return opencl::Device::open(options);
  }();
  return *device;
}

}  // namespace gemel::testing
