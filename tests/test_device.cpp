#include "tests/test_device.h"

#include <cstdlib>
#include <memory>

namespace gemel::testing {

opencl::DeviceOptions test_device_options() {
  opencl::DeviceOptions options;
  if (const char* platform = std::getenv("GEMEL_PLATFORM")) options.platform = platform;
  if (const char* name = std::getenv("GEMEL_DEVICE")) options.device = name;
  return options;
}

opencl::Device& test_device() {
  // Never destroyed: at the end of the process some drivers are gone before a static of ours.
  static opencl::Device* const device = opencl::Device::open(test_device_options()).release();
  return *device;
}

Session& test_session() {
  static Session* const session = std::make_unique<Session>(test_device()).release();
  return *session;
}

}  // namespace gemel::testing
