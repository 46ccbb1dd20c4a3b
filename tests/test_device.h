// The device that tests run on: GEMEL_PLATFORM and GEMEL_DEVICE choose it, as the options of the same names do.
#pragma once
#include "opencl/device.h"

namespace gemel::testing {

/// One device for the whole test process.
opencl::Device& test_device();

}  // namespace gemel::testing
