// What OpenCL's loader loads: every driver that a folder names, those that crash among them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace gemel::opencl {

struct DriverFile {
  std::filesystem::path file;  // /etc/OpenCL/vendors/pocl.icd
  std::string library;         // that it names
};
/// Where it looks: OCL_ICD_VENDORS, a folder, a single file or a library, or the system's folder.
std::filesystem::path drivers_place();
/// In order of their names; empty where there is none.
std::vector<DriverFile> installed_drivers(const std::filesystem::path& place);
/// Has the loader load this driver alone, in this process and in those that it starts. Before OpenCL is touched.
void load_alone(const DriverFile& driver);

}  // namespace gemel::opencl
