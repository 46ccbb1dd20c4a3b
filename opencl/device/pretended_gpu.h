// Private to opencl/: a GPU's choices on a device that is none, for tests.
#pragma once
#include <string_view>

#include "opencl/device_profile.h"

namespace gemel::opencl {

/// Makes a profile look like a GPU's where `what`, the value of GEMEL_PRETEND, is `gpu` or `gpu:units=N,local=N,group=N,width=N`: kernels are chosen
/// as for a GPU of so many compute units, whose groups have so many bytes of local memory of its own (none for local=0), at most so many work-items, and
/// so many of these in lockstep. What is not given stays as the device has it. Memory stays as the driver says. Empty: nothing is done.
/// @throws UsageError where it is anything else
void pretend(DeviceProfile& profile, std::string_view what);

}  // namespace gemel::opencl
