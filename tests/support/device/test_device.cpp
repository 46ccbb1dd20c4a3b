#include "tests/support/device/test_device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "opencl/clblast/clblast_parameters.h"

namespace gemel::testing {
namespace {

/// CLBlast's smallest tiles: what is tested is how it is called, and PoCL takes three times as long to compile the usual ones.
void shrink_clblast_tiles(opencl::Device& device) {
  device.native(
      [](void* queue, void**) {
        cl_device_id id = nullptr;
        clGetCommandQueueInfo(static_cast<cl_command_queue>(queue), CL_QUEUE_DEVICE, sizeof id, &id, nullptr);
        opencl::use_clblast_parameters(
            id, "XgemmDirect",
            {{"WGD", 8}, {"KWID", 2}, {"MDIMAD", 8}, {"MDIMCD", 8}, {"NDIMBD", 8}, {"NDIMCD", 8}, {"VWMD", 1}, {"VWND", 1}, {"PADA", 1}, {"PADB", 1}});
      },
      "clblast");
}

/// Never destroyed: at the end of the process some drivers are gone before a static of ours.
template <class T>
T* kept(T made) {
  return std::make_unique<T>(std::move(made)).release();
}

/// GEMEL_TEST_OFFSETS=1: with offsets into whole buffers instead of sub-buffers.
std::shared_ptr<opencl::Device> opened() {
  auto device = opencl::Device::open({.overlaps_sub_buffers = !std::getenv("GEMEL_TEST_OFFSETS")});
  shrink_clblast_tiles(*device);
  return device;
}

}  // namespace

const std::shared_ptr<opencl::Device>& shared_test_device() {
  static const auto& device = *kept(opened());
  return device;
}

opencl::Device& test_device() { return *shared_test_device(); }

const std::shared_ptr<opencl::Device>& shared_narrow_device() {
  static const auto& device = *kept(opencl::Device::open({.simd_width = 8}));
  return device;
}

opencl::Device& narrow_device() { return *shared_narrow_device(); }

std::shared_ptr<opencl::Device> pretended_device(const char* what, const opencl::DeviceOptions& options) {
  struct Pretence {
    explicit Pretence(const char* text) { ::setenv("GEMEL_PRETEND", text, 1); }
    ~Pretence() { ::unsetenv("GEMEL_PRETEND"); }
  } const pretence(what);
  return opencl::Device::open(options);
}

Session& test_session() {
  static const auto& session = *kept(std::make_unique<Session>(shared_test_device()));
  static const ::testing::TestInfo* seeded_for = nullptr;
  if (const auto* test = ::testing::UnitTest::GetInstance()->current_test_info(); test != seeded_for) {
    seeded_for = test;
    session->manual_seed(session->seed());  // draws and initial values do not depend on the tests before
  }
  return *session;
}

std::unique_ptr<Session> session_on(Where where, std::uint64_t seed) {
  return where == Where::reference ? Session::reference(seed) : std::make_unique<Session>(shared_test_device(), seed);
}

bool is_full_run() { return std::getenv("GEMEL_TEST_FULL"); }
std::chrono::milliseconds told_within() { return std::chrono::milliseconds(std::getenv("GEMEL_TEST_ALONE") ? 500 : 5000); }
bool does_long_work() { return is_full_run() || !test_device().profile().is_emulator; }

Session& cacheless_session() {
  static const auto& session = *kept(std::make_unique<Session>(opencl::Device::open({.cache_bytes = 1})));
  return *session;
}

}  // namespace gemel::testing
