#include "opencl/device/icd_loader.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "opencl/device/device.h"

namespace gemel::opencl {
namespace {

namespace fs = std::filesystem;
constexpr const char* kVendors = "OCL_ICD_VENDORS";
constexpr const char* kSystemFolder = "/etc/OpenCL/vendors";

}  // namespace

fs::path drivers_place() {
  const std::string own = from_environment(kVendors);
  if (own.empty()) return kSystemFolder;
  return own.find('/') == std::string::npos && own.ends_with(".icd") ? fs::path(kSystemFolder) / own : fs::path(own);
}

std::vector<DriverFile> installed_drivers(const fs::path& place) {
  std::vector<DriverFile> out;
  const auto add = [&](const fs::path& file) {
    std::string library;
    std::ifstream(file) >> library;
    out.push_back({file, library});
  };
  std::error_code none;
  if (place.filename().string().find(".so") != std::string::npos && !fs::is_directory(place, none)) return {{place, place.string()}};
  if (fs::is_regular_file(place, none)) add(place);
  for (auto it = fs::directory_iterator(place, none); !none && it != fs::directory_iterator(); it.increment(none))
    if (it->path().extension() == ".icd") add(it->path());
  std::ranges::sort(out, {}, &DriverFile::file);
  return out;
}

void load_alone(const DriverFile& driver) { ::setenv(kVendors, driver.file.c_str(), 1); }

}  // namespace gemel::opencl
