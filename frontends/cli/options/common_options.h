// The options that every computing command takes.
#pragma once
#include <cstdint>
#include <string>

#include "engine/passes/passes.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/train/step.h"
#include "opencl/device/device.h"

namespace gemel::cli {

using train::Frontend;

struct CommonOptions {
  opencl::DeviceOptions device;
  PassNames passes;
  std::string passes_text;
  std::uint64_t seed = 1;
  std::string log_dir, profile;
  bool is_first_rank = true;  // which writes the profile of all

  bool writes_profile() const { return is_first_rank && !profile.empty(); }
};

/// Adds those that choose a device: all that programs need which record no run.
void add_device_options(po::options_description& options);
/// @throws UsageError for values out of range
opencl::DeviceOptions device_options(const po::variables_map& values);
/// Adds all of them to a command's options.
void add_common_options(po::options_description& options);
/// Adds --frontend, eager unless told otherwise.
void add_frontend_option(po::options_description& options);
/// --frontend. @throws UsageError
Frontend frontend_option(const po::variables_map& values);
/// @throws UsageError where it is neither "eager" nor "graph"
Frontend parse_frontend(const std::string& name);
/// Those of studies too, where the command takes them. @throws UsageError for values out of range
CommonOptions common_options(const po::variables_map& values);

/// Names the device on standard error: "device: AMD EPYC (Portable Computing Language, 2 units)".
void say_device(const opencl::DeviceProfile& profile);

}  // namespace gemel::cli
