// Private to opencl/: the GEMM providers.
#pragma once
#include "opencl/gemm.h"

namespace gemel::opencl {

GemmProvider clblast_gemm();
GemmProvider native_gemm();

/// The forms of the native provider. Every device can run each of them; `dots` takes A [m, k] and B [n, k] only.
enum class NativeForm { tiles, dots, columns };
/// The form that is fast for the problem on the device.
NativeForm native_form(const GemmProblem& problem, const DeviceProfile& profile);
std::int64_t native_workspace_bytes(const GemmProblem& problem, const DeviceProfile& profile, NativeForm form);
void run_native(Device& device, const GemmProblem& problem, const Region& a, const Region& b, const Region& c,
                const Region& workspace, NativeForm form);

}  // namespace gemel::opencl
