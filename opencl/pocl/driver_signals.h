// Private to opencl/: signals that end a process inside a driver, and those that a driver's compiler takes for itself.
#pragma once
#include <filesystem>

namespace gemel::opencl {

/// From now on a process that ends by a fault in code which lies in the folder first appends that file's name in the folder, a line, to the
/// mark of a crash. Then the signal does what it did before this call. Only the first call does anything.
void note_code_at_crash(const std::filesystem::path& folder, const std::filesystem::path& mark);

/// LLVM, by which PoCL compiles, takes signals for itself when it starts, to remove its files. Its handler returns, so that Ctrl-\ ends nothing,
/// and a fault leaves no mark. Each call gives those, and that of a file which may not grow, what they had at the first call, which has to
/// come before LLVM starts; signals that note_code_at_crash watches stay with it.
void take_signals_back();

}  // namespace gemel::opencl
