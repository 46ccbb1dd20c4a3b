// Private to opencl/: a check of LLVM's that ends the process.
#pragma once
#include <string_view>

namespace gemel::opencl {

/// PoCL 6 names LLVM's passes in a text, where `instcombine` asks for a check besides: from LLVM 18 on, that a second round would find nothing to
/// combine any more. A kernel may well need that round, and then LLVM ends the process. LLVM means the check for its own tests; whoever compiles for
/// use is to write `instcombine<no-verify-fixpoint>`, as later versions of its message say, and PoCL 7 does without the pass. PoCL has no variable
/// for it.
/// @param platform_version  the text of CL_PLATFORM_VERSION  @return whether that driver has its kernels checked
bool checks_fixpoint(std::string_view platform_version);

/// Why it need not end a run: the program has a function of the name of LLVM's that reads such texts. The dynamic linker finds the program's first;
/// this one writes the option in, and hands the text to LLVM's own: that of the library which calls, since a process may hold several.
/// @param icd_object  a platform of the driver's, behind which an OpenCL loader finds the driver's functions
/// @return whether texts of that driver come here: not where LLVM is a part of the driver's own file, nor where Gemel is in a library that was
///         loaded privately, as modules of Python are
bool asks_no_fixpoint_of(const void* icd_object);

}  // namespace gemel::opencl
