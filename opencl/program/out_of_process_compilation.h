// Private to opencl/: compiles kernels in another process first, because the driver's compiler may end the process.
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

/// A driver compiles in threads of the process that uses it, so a compiler that aborts ends the run. Here another process compiles first, into the
/// driver's own cache, where the run finds the kernel. If that process crashes, the kernel is refused and its variant declines. The results are noted in
/// the driver's folder, so that later runs need no other process.
/// PoCL compiles a program when it is built, and a kernel when it is first enqueued with a work-group size, just before it runs. The other process
/// therefore enqueues the kernel as well, with zeros in all memory, and answers when the kernel begins to run.
class OutOfProcessCompiler {
 public:
  /// True if the driver's compiler is known to end the process over correct kernels.
  static bool is_needed(cl_platform_id platform, const DeviceProfile& profile);

  /// True for GEMEL_COMPILE=apart, for other compilers. @throws UsageError for any other value
  static bool is_asked_for();

  OutOfProcessCompiler(cl_platform_id platform, const DeviceProfile& profile);

  /// Compiles a request unless its result is known. @throws CompilerAbort if the compiler crashes over it
  void compile(const CompileRequest& request);

 private:
  /// Reason of a refusal; empty if the request compiles or the result is unknown.
  std::string refusal_of(const CompileRequest& request, const std::filesystem::path& folder, const std::string& note);
  /// @return empty text if the request compiles; nullopt if the result is unknown
  /// @throws DeviceError if no process can be started
  std::optional<std::string> compiled(const std::string& request, const std::filesystem::path& folder);
  std::mutex mutex_;  // protects the members below
  CompilerProcess::Device device_;
  std::string key_;        // identifies device and driver in the names of notes
  bool given_up_ = false;  // no process can compile; noted refusals still hold
  std::unique_ptr<CompilerProcess> process_;
  std::map<std::string, std::string> refusals_;  // by name of the note; empty: it compiles
};

}  // namespace gemel::opencl
