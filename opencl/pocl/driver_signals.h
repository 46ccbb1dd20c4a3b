// Private to opencl/: handlers for crashes in kernel code, and restoration of signal handlers that a driver's compiler replaces.
#pragma once
#include <filesystem>

namespace gemel::opencl {

/// Installs handlers for fatal signals: if the fault lies in code of a file below `folder`, appends a line with the file's name to `mark`. Then the
/// signal acts as before this call. Only the first call has an effect.
void note_code_at_crash(const std::filesystem::path& folder, const std::filesystem::path& mark);

/// Restores the signal handlers that LLVM, PoCL's compiler, replaces when it starts: its handlers return, so that Ctrl-\ does not end the process and a
/// fault leaves no mark. Each call restores these handlers, and that of SIGXFSZ, to their state at the first call, which must come before LLVM
/// starts. Signals of note_code_at_crash keep its handlers.
void take_signals_back();

}  // namespace gemel::opencl
