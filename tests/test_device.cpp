#include "tests/test_device.h"

#include <memory>

#include "opencl/gemm_providers.h"

namespace gemel::testing {
namespace {

/// CLBlast's smallest tiles: what is tested is how it is called, and PoCL takes three times as long to compile the usual ones.
void shrink_clblast_tiles(opencl::Device& device) {
  device.native([](void* queue, void**) {
    cl_device_id id = nullptr;
    clGetCommandQueueInfo(static_cast<cl_command_queue>(queue), CL_QUEUE_DEVICE, sizeof id, &id, nullptr);
    opencl::use_clblast_parameters(id, "XgemmDirect", {{"WGD", 8}, {"KWID", 2}, {"MDIMAD", 8}, {"MDIMCD", 8}, {"NDIMBD", 8}, {"NDIMCD", 8},
                                                       {"VWMD", 1}, {"VWND", 1}, {"PADA", 1}, {"PADB", 1}});
  }, "clblast");
}

opencl::Device* opened() {
  auto device = opencl::Device::open({});
  shrink_clblast_tiles(*device);
  return device.release();
}

}  // namespace

opencl::Device& test_device() {
  // Never destroyed: at the end of the process some drivers are gone before a static of ours.
  static opencl::Device* const device = opened();
  return *device;
}

opencl::Device& narrow_device() {
  static opencl::Device* const device = opencl::Device::open({.simd_width = 8}).release();
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
