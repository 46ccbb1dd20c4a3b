// Private to opencl/: where the forms of GEMM come from.
#pragma once
#include <vector>

#include "opencl/gemm/gemm.h"
#include "opencl/handle.h"
#include "opencl/program/tuning_table.h"

namespace gemel::opencl {

GemmForm clblast_gemm();
std::vector<GemmForm> native_gemm();

/// For all that CLBlast computes on the device from now on. @throws DeviceError for a kernel or parameters that it does not know
void use_clblast_parameters(cl_device_id device, const std::string& kernel, const ClblastParameters& parameters);
/// Those of the device's table. What is not known is taken from the table, with a warning that names its file.
void use_clblast_parameters(cl_device_id device, TuningTable& table, const DeviceProfile& profile);

}  // namespace gemel::opencl
