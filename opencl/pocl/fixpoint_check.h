// Private to opencl/: disables a check of LLVM that ends the process.
#pragma once
#include <string_view>

namespace gemel::opencl {

/// True if the driver compiles kernels with the fixpoint check. PoCL 6 names LLVM's passes in a text, in which `instcombine` also enables, from LLVM 18
/// on, a check that a second round of the pass changes nothing. LLVM ends the process for kernels that need this round. The check is meant for LLVM's own
/// tests; compilers should write `instcombine<no-verify-fixpoint>`. PoCL 7 does not use the pass; PoCL has no variable for it.
/// @param platform_version  text of CL_PLATFORM_VERSION
bool checks_fixpoint(std::string_view platform_version);

/// True if Gemel can disable the check for the driver. The program defines a function with the name of LLVM's parser of such texts, which the dynamic
/// linker finds first. It inserts the option and calls the function of the calling LLVM library; a process may hold several.
/// @param icd_object  a platform of the driver, which leads to the driver's functions
/// @return false if LLVM is linked into the driver's own file, or if Gemel is in a library that was loaded privately, such as a Python module
bool asks_no_fixpoint_of(const void* icd_object);

}  // namespace gemel::opencl
