// Private to opencl/: building of programs, and ProgramCache, their binaries on disk.
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

/// Binaries on disk, one file for each program, named by a hash of source, options, device and driver. Files are written atomically and carry their length
/// and a checksum. A file that cannot be read is built again. If a file cannot be written, warns once and stores nothing more.
class ProgramCache {
 public:
  /// $GEMEL_CACHE_DIR, else $XDG_CACHE_HOME/gemel if absolute, else ~/.cache/gemel. Empty if none is set: no cache.
  static std::optional<std::filesystem::path> default_folder();
  /// Folder for the programs of a device. Empty for PoCL: it compiles kernels for each work-group size, so binaries of programs save little and take
  /// seconds to get, and its own cache holds the compiled kernels.
  static std::optional<std::filesystem::path> folder_for(const DeviceProfile& profile);

  ProgramCache(std::optional<std::filesystem::path> folder, const DeviceProfile& profile);
  /// Loads a binary. @return empty if there is none or it is damaged
  std::vector<unsigned char> load(const std::string& source, const std::string& options) const;
  /// True if the driver compiles kernels when it builds a program. PoCL compiles them when they first run.
  bool is_of_kernels() const { return is_of_kernels_; }
  bool stores() const { return folder_.has_value() && !is_refused_; }
  void store(const std::string& source, const std::string& options, const std::vector<unsigned char>& binary) const;

 private:
  std::filesystem::path file_for(const std::string& source, const std::string& options) const;
  std::optional<std::filesystem::path> folder_;
  std::string device_;
  bool is_of_kernels_;
  mutable std::atomic<bool> is_refused_ = false;  // a write has failed, e.g. because the disk is full
};

/// Replaces the #include lines of a source by the embedded files. @throws InternalError if a file is missing
std::string with_includes(std::string_view text);
/// Source of an embedded file, with #include lines replaced. @throws InternalError if a file is missing
std::string embedded_source(std::string_view file);

/// Macros that describe a device, which are prepended to every program.
std::string macros_for(const DeviceProfile& profile);

struct ProgramText {
  std::string title;  // name in messages
  std::string source, options;
  bool declares_builtins = false;  // build with kernels/builtins.clh first, in place of the compiler's header of built-in functions
};
/// Builds a program, from the cache if possible. @throws DeviceError with the build log
ProgramHandle build_program(cl_context context, cl_device_id device, const ProgramCache& cache, const ProgramText& text);

}  // namespace gemel::opencl
