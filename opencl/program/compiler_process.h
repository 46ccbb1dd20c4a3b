// Private to opencl/: CompilerProcess, a process of the program gemel-compile.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/files/descriptor.h"

namespace gemel::opencl {

/// A process that compiles kernels. It is a separate program, since a forked process lacks the driver's threads. It ends when its socket is closed.
class CompilerProcess {
 public:
  struct Device {
    std::string platform, name;
  };
  /// Path of the program: in the folder of the running program, in libexec/gemel beside that folder, in the install folder or in the build folder. Empty if
  /// it is in none of them.
  static std::filesystem::path program();

  /// Starts the process.
  /// @param cache  folder for the driver's kernel cache; empty: as the environment says
  /// @throws DeviceError if it does not start
  CompilerProcess(const Device& device, const std::filesystem::path& cache);
  ~CompilerProcess();
  CompilerProcess(const CompilerProcess&) = delete;
  CompilerProcess& operator=(const CompilerProcess&) = delete;

  const std::filesystem::path& cache() const { return cache_; }
  /// `ended`: it ended before it received the request, perhaps because an earlier kernel crashed when it ran on zeros. `ended_over_it`: it ended while
  /// it compiled.
  enum class Answer { compiled, ended, ended_over_it };
  Answer ask(std::string_view request);
  /// Message of a process that crashed; empty if it was killed or ended normally. Call after it has ended.
  std::optional<std::string> crash();
  /// The most telling line of its standard error.
  std::string last_words() const;

 private:
  std::filesystem::path cache_;
  Descriptor socket_{-1}, said_{-1};  // its standard input; a file with its standard error
  pid_t process_ = -1;
};

}  // namespace gemel::opencl
