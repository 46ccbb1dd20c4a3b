#include "opencl/kernel_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "engine/base/descriptor.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "opencl/device.h"
#include "opencl/driver_cache.h"
#include "opencl/program_cache.h"

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

/// By a file as large as kernels are, and a page of it that is mapped as a linked kernel's is.
std::string why_no_code(const fs::path& folder) {
  constexpr std::int64_t kKernel = 2 << 20;  // bytes
  std::string name = (folder / "gemel-doctor-XXXXXX").string();
  const Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.get() < 0) return cannot("written", errno);
  ::unlink(name.c_str());
  if (const int error = ::posix_fallocate(file.get(), 0, kKernel)) return cannot("written", error);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const mapped = ::mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) return errno == EPERM ? "lies on a file system that is mounted noexec" : cannot("executed from", errno);
  ::munmap(mapped, page);
  return "";
}

}  // namespace

std::string why_no_kernels(const fs::path& folder) {
  const fs::path there = nearest_there(folder);
  struct stat status {};
  if (::stat(there.c_str(), &status) != 0) return cannot("examined", errno);
  if (!S_ISDIR(status.st_mode)) return cannot("made", ENOTDIR);
  if (::access(there.c_str(), W_OK | X_OK) != 0) return cannot("written", errno);
  return why_no_code(there);
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
