#include "opencl/program/kernel_cache_location.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "opencl/device/device.h"
#include "opencl/pocl/driver_cache.h"
#include "opencl/program/program_cache.h"

namespace gemel::opencl {
namespace {

namespace fs = std::filesystem;

/// The folder, or where it is missing the nearest one above it that is there.
fs::path nearest_there(fs::path folder) {
  std::error_code none;
  while (!fs::is_directory(folder, none) && folder.has_relative_path()) {
    if (fs::exists(fs::symlink_status(folder, none))) return folder;  // no folder, and in the way of one
    folder = folder.parent_path();
  }
  return folder;
}

std::string cannot(const char* what, int error) { return fmt::format("cannot be {}: {}", what, system_message(error)); }

}  // namespace

std::string why_no_kernels(const fs::path& folder) {
  const fs::path there = nearest_there(folder);
  struct stat status {};
  if (::stat(there.c_str(), &status) != 0) return cannot("examined", errno);
  if (!S_ISDIR(status.st_mode)) return cannot("made", ENOTDIR);
  if (::access(there.c_str(), W_OK | X_OK) != 0) return cannot("written", errno);
  const Obstacle obstacle = obstacle_in(there);
  if (obstacle.write_error != 0) return cannot("written", obstacle.write_error);
  if (obstacle.load_error == EPERM) return "lies on a file system that is mounted noexec";
  return obstacle ? cannot("executed from", obstacle.load_error) : "";
}

KernelPlace kernel_place() {
  KernelPlace out;
  for (const char* variable : {"POCL_CACHE_DIR", "GEMEL_CACHE_DIR"})
    if (out.by_variable.empty() && !from_environment(variable).empty()) out.by_variable = variable;
  if (out.by_variable == "POCL_CACHE_DIR")
    out.folder = from_environment("POCL_CACHE_DIR");
  else if (const auto folder = ProgramCache::default_folder())
    out.folder = *folder;
  out.why_not = out.folder.empty() ? "has no folder: HOME names none" : why_no_kernels(out.folder);
  try {
    DriverCache::of_process().open();
    const fs::path used = DriverCache::of_process().folder();
    if (out.why_not.empty() && !used.native().starts_with(out.folder.native())) out.why_not = "cannot be used, nor what lies in it: it may be another user's";
    if (used.empty()) out.refused = "PoCL offers no device without it";
  } catch (const Error& e) {
    out.refused = e.what();
    if (out.why_not.empty()) out.why_not = "cannot be used";
  }
  return out;
}

}  // namespace gemel::opencl
