// Trial of a device's matrix units: whether its driver takes their instructions, and they compute what kernels expect of them.
#pragma once
#include <string>

#include "opencl/device/device.h"

namespace gemel::opencl {

/// How kernels are built for the device's units: "-DUNITS=MMA_SYNC". @throws InternalError where the profile names none
std::string units_option(const DeviceProfile& profile);

/// Multiplies two small matrices of whole numbers by the units that the profile names. False where the program does not build or run, or a result differs.
/// Waits for the device.
bool multiplies_exactly(Device& device);

/// Those of the device that compute what they should; to be asked before anything else computes. What fails is as if the device had none.
MatrixUnits usable_units(Device& device);

}  // namespace gemel::opencl
