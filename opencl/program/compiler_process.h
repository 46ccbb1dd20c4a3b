// Private to opencl/: the process that compiles apart, gemel-compile.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/files/descriptor.h"

namespace gemel::opencl {

/// A driver has threads and locks that a forked process has not, so this is a program of its own. It ends when the other end of its socket closes.
class CompilerProcess {
 public:
  struct Device {
    std::string platform, name;
  };
  /// Where the program is: beside the one that runs, in libexec/gemel beside that one's folder, where it was installed, or where this was built.
  /// Empty where it is in none of them.
  static std::filesystem::path program();

  /// @param cache  the folder in which the driver is to keep what it compiles; empty: as the environment says  @throws DeviceError where it does not start
  CompilerProcess(const Device& device, const std::filesystem::path& cache);
  ~CompilerProcess();
  CompilerProcess(const CompilerProcess&) = delete;
  CompilerProcess& operator=(const CompilerProcess&) = delete;

  const std::filesystem::path& cache() const { return cache_; }
  /// `ended` before it came to the request: what it compiled before may crash as it runs, among zeros.
  enum class Answer { compiled, ended, ended_over_it };
  Answer ask(std::string_view request);
  /// Of one that has ended: what its compiler said before it crashed; nothing where it was killed, or ended by itself.
  std::optional<std::string> crash();
  /// What it said; of more than a line the one that tells most.
  std::string last_words() const;

 private:
  std::filesystem::path cache_;
  Descriptor socket_{-1}, said_{-1};  // its standard input; a file that is its standard error
  pid_t process_ = -1;
};

}  // namespace gemel::opencl
