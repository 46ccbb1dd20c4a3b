// Private to opencl/: the GEMM providers.
#pragma once
#include "opencl/gemm.h"
#include "opencl/handle.h"
#include "opencl/tuning.h"

namespace gemel::opencl {

GemmProvider clblast_gemm();
GemmProvider native_gemm();

/// For all that CLBlast computes on the device from now on. @throws DeviceError for a kernel or parameters that it does not know
void use_clblast_parameters(cl_device_id device, const std::string& kernel, const ClblastParameters& parameters);

/// The forms of the native provider.
enum class NativeForm { tiles, dots, few_rows, columns };
/// `dots` takes B [n, k] only, `few_rows` B [k, n] and at most 8 rows; their loops are too long for some emulators.
bool takes(NativeForm form, const GemmProblem& problem, const DeviceProfile& profile);
/// The form that is fast for the problem on the device.
NativeForm native_form(const GemmProblem& problem, const DeviceProfile& profile);
std::int64_t native_workspace_bytes(const GemmProblem& problem, NativeForm form);
void run_native(Device& device, const GemmProblem& problem, const GemmOperands& operands, NativeForm form);

}  // namespace gemel::opencl
