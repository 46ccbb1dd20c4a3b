#include "opencl/device/gpu_nodes.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

namespace gemel::opencl {
namespace {

namespace fs = std::filesystem;

struct Known {
  const char *folder, *begin;  // of the node's name
  const char* maker;
  std::array<std::string_view, 5> drivers;  // parts of the names of files of drivers that may be its
  const char *library, *package;
};
constexpr Known kKnown[] = {
    {"dev", "nvidia", "NVIDIA", {"nvidia"}, "libnvidia-opencl.so.1", "nvidia-opencl-icd (in a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility)"},
    {"dev", "kfd", "AMD", {"amdocl"}, "libamdocl64.so", "rocm-opencl-icd, rocm-opencl or rocm-opencl-runtime"},
    {"dev/dri", "renderD", "", {"intel", "igdrcl", "rusticl", "mesa", "amdocl"}, "", "intel-opencl-icd or mesa-opencl-icd"}};

bool is_for(const DriverFile& driver, const Known& gpu) {
  const std::string names = driver.file.filename().string() + " " + driver.library;
  return std::ranges::any_of(gpu.drivers, [&](std::string_view part) { return !part.empty() && names.find(part) != std::string::npos; });
}

}  // namespace

std::vector<GpuNode> gpu_nodes(const std::vector<DriverFile>& installed, const fs::path& root) {
  std::vector<GpuNode> out;
  for (const Known& k : kKnown) {
    if (!out.empty() && *k.maker == '\0') break;  // the nodes that others are drawn by are of those found
    std::error_code none;
    const bool has_driver = std::ranges::any_of(installed, [&](const DriverFile& d) { return is_for(d, k); });
    for (auto it = fs::directory_iterator(root / k.folder, none); !none && it != fs::directory_iterator(); it.increment(none)) {
      const std::string name = it->path().filename().string(), begin = k.begin;
      // nvidia0, and not nvidia-uvm or nvidiactl
      const bool is_one = name.starts_with(begin) && std::all_of(name.begin() + std::ssize(begin), name.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (is_one) out.push_back({it->path(), k.maker, k.library, k.package, ::access(it->path().c_str(), R_OK | W_OK) == 0, has_driver});
    }
  }
  std::ranges::sort(out, {}, &GpuNode::node);
  return out;
}

}  // namespace gemel::opencl
