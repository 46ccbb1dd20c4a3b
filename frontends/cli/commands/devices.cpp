// gemel devices: every OpenCL platform and device; what one of them can do at most.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontends/cli/command.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/run/roofline.h"
#include "opencl/device/device.h"

namespace gemel::cli {
namespace {

nlohmann::ordered_json json_of(const std::vector<opencl::PlatformInfo>& platforms) {
  auto out = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < platforms.size(); ++i) {
    const auto& p = platforms[i];
    auto devices = nlohmann::ordered_json::array();
    for (std::size_t d = 0; d < p.devices.size(); ++d) {
      const auto& f = p.devices[d];
      devices.push_back({{"index", d},
                         {"name", f.name},
                         {"type", to_string(f.kind)},
                         {"compute_units", f.compute_units},
                         {"global_bytes", f.global_bytes},
                         {"max_allocation_bytes", f.max_allocation_bytes},
                         {"local_bytes", f.local_bytes},
                         {"sub_group_width", f.sub_group_width},
                         {"version", f.version},
                         {"driver", f.driver},
                         {"usable", p.problems[d].empty()},
                         {"problem", p.problems[d]}});
    }
    out.push_back({{"index", i}, {"name", p.name}, {"vendor", p.vendor}, {"version", p.version}, {"devices", devices}});
  }
  return {{"platforms", out}};
}

void print(const std::vector<opencl::PlatformInfo>& platforms) {
  if (platforms.empty()) fmt::print("no OpenCL platform is installed; the package pocl-opencl-icd brings one for CPUs\n");
  for (std::size_t i = 0; i < platforms.size(); ++i) {
    const auto& p = platforms[i];
    fmt::print("platform {}: {} ({})\n", i, p.name, p.version);
    if (p.devices.empty()) fmt::print("  no devices\n");
    for (std::size_t d = 0; d < p.devices.size(); ++d) {
      const auto& f = p.devices[d];
      fmt::print("  device {}: {}\n    {}, {} compute units, {:.1f} GiB, largest buffer {:.1f} GiB, {}, driver {}\n    {}\n", d, f.name, to_string(f.kind),
                 f.compute_units, static_cast<double>(f.global_bytes) / (1 << 30), static_cast<double>(f.max_allocation_bytes) / (1 << 30), f.version, f.driver,
                 p.problems[d].empty() ? "can be used" : "cannot be used: " + p.problems[d]);
    }
  }
}

void measure(const opencl::DeviceOptions& options, bool as_json) {
  Session session(opencl::Device::open(options));
  const Roofline found = measure_roofline(session);
  const std::string name = session.device().profile().name;
  if (as_json) {
    const nlohmann::ordered_json out{
        {"name", name}, {"flops_per_second", found.flops}, {"bytes_per_second", found.bytes}, {"read_bytes_per_second", found.reads}};
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("{}: {}\n", name, to_string(found));
  }
}

}  // namespace

int devices(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("json", po::bool_switch(), "machine-readable output");
  options.add_options()("measure", po::bool_switch(),
                        "how fast the device that the options below choose multiplies and adds, and its memory; takes some seconds");
  add_device_options(options);
  const auto values = parse("devices", "Lists every OpenCL platform and device, and whether it can be used.", options, arguments);
  if (values["measure"].as<bool>()) {
    measure(device_options(values), values["json"].as<bool>());
    return 0;
  }
  const auto found = opencl::platforms();
  if (values["json"].as<bool>())
    fmt::print("{}\n", json_of(found).dump(2));
  else
    print(found);
  return 0;
}

}  // namespace gemel::cli
