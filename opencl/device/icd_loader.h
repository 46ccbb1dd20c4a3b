// Drivers that the OpenCL loader loads. It loads all that a folder names, so one that crashes affects all programs.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace gemel::opencl {

struct DriverFile {
  std::filesystem::path file;  // /etc/OpenCL/vendors/pocl.icd
  std::string library;         // library that the file names
};
/// Place where the loader looks for drivers: OCL_ICD_VENDORS (a folder, a file or a library), or the folder of the system.
std::filesystem::path drivers_place();
/// Installed drivers, sorted by name.
std::vector<DriverFile> installed_drivers(const std::filesystem::path& place);
/// Makes the loader load this driver only, in this process and its children. Call before the first OpenCL call.
void load_alone(const DriverFile& driver);

}  // namespace gemel::opencl
