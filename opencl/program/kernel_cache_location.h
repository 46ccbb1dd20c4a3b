// Where compiled kernels are kept, and whether they can be: for whoever tells a user.
#pragma once
#include <filesystem>
#include <string>

namespace gemel::opencl {

struct KernelPlace {
  std::filesystem::path folder;  // as the user's variables say
  std::string by_variable;       // that names it; empty: the default
  std::string why_not;           // "cannot be written: ..."; empty: it can be used
  std::string refused;           // what runs end with for it; empty: they go on, in a folder that goes with them
};
/// Of this process: opens the driver's cache as a run does.
KernelPlace kernel_place();

/// What keeps a driver from writing code into a folder and running it, or empty. The folder itself need not be there.
std::string why_no_kernels(const std::filesystem::path& folder);

}  // namespace gemel::opencl
