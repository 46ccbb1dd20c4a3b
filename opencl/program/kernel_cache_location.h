// Location of the cache of compiled kernels and whether it can be used, for messages to users.
#pragma once
#include <filesystem>
#include <string>

namespace gemel::opencl {

struct KernelPlace {
  std::filesystem::path folder;  // as environment variables say
  std::string by_variable;       // variable that names it; empty: the default
  std::string why_not;           // reason why it cannot be used, "cannot be written: ..."; empty: it can
  std::string refused;           // error of runs if the folder cannot be used; empty: they continue in a temporary folder
};
/// Location for this process. Opens the cache of the driver as a run does.
KernelPlace kernel_place();

/// Reason why a driver cannot write kernels into a folder and load them; empty if it can. The folder need not exist.
std::string why_no_kernels(const std::filesystem::path& folder);

}  // namespace gemel::opencl
