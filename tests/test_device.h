// The device that tests run on: GEMEL_PLATFORM and GEMEL_DEVICE choose it, as the options of the same names do.
#pragma once
#include "engine/session.h"
#include "opencl/device.h"

namespace gemel::testing {

/// What GEMEL_PLATFORM and GEMEL_DEVICE say, for tests that open a device of their own.
opencl::DeviceOptions test_device_options();

/// One device for the whole test process.
opencl::Device& test_device();
/// One session on it, for tests that leave no state in it.
Session& test_session();

}  // namespace gemel::testing
