// The device that tests run on: GEMEL_PLATFORM and GEMEL_DEVICE choose it, as they do for every program.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>

#include "engine/core/session.h"
#include "opencl/device/device.h"

namespace gemel::testing {

/// One device for the whole test process.
opencl::Device& test_device();
/// The same, for sessions.
const std::shared_ptr<opencl::Device>& shared_test_device();
/// One session on it, for tests that leave no state in it.
Session& test_session();
/// Who computes what a test compares: the reference in double on the host, or the device.
enum class Where { reference, device };
std::unique_ptr<Session> session_on(Where where, std::uint64_t seed = 1);
/// `./gemel test --full`
bool is_full_run();
/// Within how long an ended rank is told of: half a second where GEMEL_TEST_ALONE says that nothing else loads the machine, else ten times as long.
std::chrono::milliseconds told_within();
/// Whether to do what takes an emulator minutes: on any other device, and on an emulator in a full run.
bool does_long_work();
/// One on the same device as if its caches held next to nothing: results go around them.
Session& cacheless_session();
/// The same device as if its vectors had eight lanes, as those of most CPUs have.
opencl::Device& narrow_device();
const std::shared_ptr<opencl::Device>& shared_narrow_device();
/// The test device's platform with the choices of another device. @param what  value of GEMEL_PRETEND
std::shared_ptr<opencl::Device> pretended_device(const char* what, const opencl::DeviceOptions& options = {});

}  // namespace gemel::testing
