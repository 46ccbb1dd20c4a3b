// Private to opencl/: log of compiled kernels for GEMEL_VERBOSE=kernels: a line for each, and their number at the end of the process.
#pragma once
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string>

#include "opencl/handle.h"

namespace gemel::opencl {

/// Scope around work for which PoCL may have to compile kernels. Logs the files that are new in PoCL's folder when the work is done. Processes that share
/// the folder must take turns, or they count each other's kernels.
class CompilationWatch {
 public:
  /// @param kernels  number of kernels that are new to PoCL in this process
  /// @param queue    waited for at the end, if the log is on
  CompilationWatch(std::size_t kernels, cl_command_queue queue);
  ~CompilationWatch();
  CompilationWatch(const CompilationWatch&) = delete;
  CompilationWatch& operator=(const CompilationWatch&) = delete;

 private:
  std::size_t kernels_;  // 0: no log
  cl_command_queue queue_;
  std::filesystem::path folder_;
  std::set<std::string> before_;
  std::chrono::steady_clock::time_point begin_;
};

/// Log of drivers that compile kernels when they build a program: counts a program; logs one that was not in the cache and was compiled.
void count_program();
void tell_compiled(const std::string& program, std::chrono::steady_clock::duration took);

}  // namespace gemel::opencl
