// gemel doctor: GPUs of this machine that no driver offers.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "engine/base/text/shell_quote.h"
#include "frontends/cli/doctor/health_check.h"
#include "opencl/device/gpu_nodes.h"
#include "opencl/device/icd_loader.h"

namespace gemel::cli {
namespace {

/// The group that the node is for.
std::string remedy_of_closed(const opencl::GpuNode& gpu) {
  struct stat status {};
  const group* owner = ::stat(gpu.node.c_str(), &status) == 0 ? ::getgrgid(status.st_gid) : nullptr;
  const passwd* user = ::getpwuid(::geteuid());
  if (owner == nullptr || user == nullptr || status.st_gid == 0) return "access to it for this user";
  return as_root(fmt::format("usermod -aG {} {}", owner->gr_name, user->pw_name));
}

/// A container may have the library and not the file by which the loader finds it.
std::string remedy_of_driver(const opencl::GpuNode& gpu) {
  if (gpu.library.empty() || ::dlopen(gpu.library.c_str(), RTLD_LAZY) == nullptr) return "a driver for it, of the package " + gpu.package;
  const std::string folder = opencl::drivers_place().string();
  return fmt::format("{} && echo {} | {} >/dev/null", as_root("mkdir -p " + shell_word(folder)), gpu.library,
                     as_root(fmt::format("tee {}/gpu.icd", shell_word(folder))));
}

Finding gpus() {
  const std::vector<opencl::GpuNode> all = opencl::gpu_nodes(opencl::installed_drivers(opencl::drivers_place()));
  std::vector<std::string> names;
  for (const opencl::GpuNode& gpu : all) names.push_back(gpu.maker.empty() ? gpu.node.string() : fmt::format("{} ({})", gpu.node.string(), gpu.maker));
  const std::string text = fmt::format("{}", fmt::join(names, ", "));
  for (const opencl::GpuNode& gpu : all)
    if (!gpu.may_open)
      return {Health::odd, fmt::format("{}; {} cannot be opened by this user, who has it from the next login on", text, gpu.node.string()),
              remedy_of_closed(gpu)};
  for (const opencl::GpuNode& gpu : all)
    if (!gpu.has_driver) return {Health::odd, fmt::format("{}; no driver of OpenCL is installed for {}", text, gpu.node.string()), remedy_of_driver(gpu)};
  return {Health::ok, all.empty() ? "none that the system shows" : text};
}

}  // namespace

std::vector<Check> gpu_checks() { return {{"gpus", gpus}}; }

}  // namespace gemel::cli
