// Private to opencl/: with GEMEL_VERBOSE=kernels, a line for each kernel that a driver compiles, and at the end of the process how many there were.
#pragma once
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string>

#include "opencl/handle.h"

namespace gemel::opencl {

/// Around work that PoCL may have to compile kernels for: what its folder of them has more when the work is done was compiled. Whoever shares the
/// folder takes turns at this, so that nobody counts another's.
class CompilationWatch {
 public:
  /// @param kernels  that PoCL has not met in this process  @param queue  is waited for at the end, where it is told at all
  CompilationWatch(std::size_t kernels, cl_command_queue queue);
  ~CompilationWatch();
  CompilationWatch(const CompilationWatch&) = delete;
  CompilationWatch& operator=(const CompilationWatch&) = delete;

 private:
  std::size_t kernels_;  // 0: nothing is watched
  cl_command_queue queue_;
  std::filesystem::path folder_;
  std::set<std::string> before_;
  std::chrono::steady_clock::time_point begin_;
};

/// A program of a driver that compiles kernels when it builds one: met, and where it was not in our cache built from source.
void count_program();
void tell_compiled(const std::string& program, std::chrono::steady_clock::duration took);

}  // namespace gemel::opencl
