// The options that every computing command takes.
#pragma once
#include <memory>
#include <string>

#include "engine/passes/passes.h"
#include "frontends/cli/arguments.h"
#include "opencl/device.h"

namespace gemel::cli {

struct CommonOptions {
  opencl::DeviceOptions device;
  PassNames passes;
  std::string passes_text;
  std::uint64_t seed = 1;
  std::string log_dir, profile;
};

/// Adds them to a command's options.
void add_common_options(po::options_description& options);
/// @throws UsageError for values out of range
CommonOptions common_options(const po::variables_map& values);

/// Opens the device and says which on standard error.
std::unique_ptr<opencl::Device> open_device(const CommonOptions& options);
/// "AMD EPYC (Portable Computing Language, 2 units)"
std::string describe(const opencl::DeviceProfile& profile);

}  // namespace gemel::cli
