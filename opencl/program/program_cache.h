// Private to opencl/: programs from source, in memory and on disk.
#pragma once
#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opencl/device_profile.h"
#include "opencl/handle.h"

namespace gemel::opencl {

/// Binaries on disk, one file each, named by a hash of source, options, device and driver. A file is written beside and
/// renamed, and carries its length and a checksum: a crash or a second process never leaves one that is half there.
/// Where it cannot be read the program is built again; where it cannot be written that is said once, and nothing more is kept.
class ProgramCache {
 public:
  /// $GEMEL_CACHE_DIR, else $XDG_CACHE_HOME/gemel where that is absolute, else ~/.cache/gemel; none of these: no cache.
  static std::optional<std::filesystem::path> default_folder();
  /// The folder for a device's programs: none where the driver's own cache serves better. PoCL compiles a kernel again
  /// for each group size, so its binaries save little and cost seconds to get; its own cache holds what it compiled.
  static std::optional<std::filesystem::path> folder_for(const DeviceProfile& profile);

  ProgramCache(std::optional<std::filesystem::path> folder, const DeviceProfile& profile);
  /// @return empty where there is none, or it is damaged
  std::vector<unsigned char> load(const std::string& source, const std::string& options) const;
  /// Whether the driver compiles kernels when it builds a program; PoCL does when they first run.
  bool is_of_kernels() const { return is_of_kernels_; }
  bool stores() const { return folder_.has_value() && !is_refused_; }
  void store(const std::string& source, const std::string& options, const std::vector<unsigned char>& binary) const;

 private:
  std::filesystem::path file_for(const std::string& source, const std::string& options) const;
  std::optional<std::filesystem::path> folder_;
  std::string device_;
  bool is_of_kernels_;
  mutable std::atomic<bool> is_refused_ = false;  // by a full disk, say
};

/// A source with its #include lines replaced by the embedded files that they name. @throws InternalError if one is missing
std::string with_includes(std::string_view text);
/// An embedded file's, likewise.
std::string embedded_source(std::string_view file);

/// What programs are told of their device, before their source.
std::string macros_for(const DeviceProfile& profile);

struct ProgramText {
  std::string title;  // in messages
  std::string source, options;
  bool declares_builtins = false;  // try it first with opencl/kernels/lib/builtins.clh in place of the compiler's own header of built-in functions
};
/// Builds, from the cache where it holds the program. @throws DeviceError with the build log
ProgramHandle build_program(cl_context context, cl_device_id device, const ProgramCache& cache, const ProgramText& text);

}  // namespace gemel::opencl
