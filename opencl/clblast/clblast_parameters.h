// Private to opencl/: the parameters of CLBlast's kernels on a device.
#pragma once
#include <string>

#include "opencl/handle.h"
#include "opencl/program/tuning_table.h"

namespace gemel::opencl {

/// For all that CLBlast computes on the device from now on. @throws DeviceError for a kernel or parameters that it does not know
void use_clblast_parameters(cl_device_id device, const std::string& kernel, const ClblastParameters& parameters);
/// Those of the device's table. What is not known is taken from the table, with a warning that names its file.
void use_clblast_parameters(cl_device_id device, TuningTable& table, const DeviceProfile& profile);

}  // namespace gemel::opencl
