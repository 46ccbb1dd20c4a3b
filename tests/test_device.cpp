#include "tests/test_device.h"

#include <memory>

namespace gemel::testing {

opencl::Device& test_device() {
  // Never destroyed: at the end of the process some drivers are gone before a static of ours.
  static opencl::Device* const device = opencl::Device::open({}).release();
  return *device;
}

Session& test_session() {
  static Session* const session = std::make_unique<Session>(test_device()).release();
  return *session;
}

Session& cacheless_session() {
  static opencl::Device* const device = opencl::Device::open({.cache_bytes = 1}).release();
  static Session* const session = std::make_unique<Session>(*device).release();
  return *session;
}

}  // namespace gemel::testing
