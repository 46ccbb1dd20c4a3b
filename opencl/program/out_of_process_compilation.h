// Private to opencl/: kernels over which a driver's compiler may end the process are compiled in another one first.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "opencl/device_profile.h"
#include "opencl/handle.h"
#include "opencl/program/compile_request.h"
#include "opencl/program/compiler_process.h"

namespace gemel::opencl {

/// A driver compiles in the process that uses it, in threads of its own: a compiler that aborts takes the run with it. With this another process
/// compiles first, into the driver's own cache, where the run then finds it; where that process crashes, the kernel is refused, and its variant
/// declines. What was compiled or refused is noted in the driver's folder, so that later runs compile nothing apart.
/// PoCL compiles a program when it is built, and a kernel when it is first enqueued in groups of a size, just before it runs: the other process
/// enqueues it as well, with zeros in all memory, and answers when it begins to run.
class CompileApart {
 public:
  /// Whether the driver's compiler is known to end the process over kernels that are right.
  static bool is_needed(cl_platform_id platform, const DeviceProfile& profile);

  /// GEMEL_COMPILE=apart: for a compiler that is not known for it. @throws UsageError where it is anything else
  static bool is_asked_for();

  CompileApart(cl_platform_id platform, const DeviceProfile& profile);

  /// @throws CompilerAbort
  void compile(const CompileRequest& request);

 private:
  /// Empty where it compiles, or nobody knows.
  std::string refusal_of(const CompileRequest& request, const std::filesystem::path& folder, const std::string& note);
  /// @return empty where it compiles; nothing where it was not found out  @throws DeviceError where no process comes to it
  std::optional<std::string> compiled(const std::string& request, const std::filesystem::path& folder);
  std::mutex mutex_;  // of all that follows
  CompilerProcess::Device device_;
  std::string key_;        // the device and its driver, in the names of notes
  bool given_up_ = false;  // there is no process that compiles: what is noted is still refused
  std::unique_ptr<CompilerProcess> process_;
  std::map<std::string, std::string> refusals_;  // by name of the note; empty where it compiles
};

}  // namespace gemel::opencl
