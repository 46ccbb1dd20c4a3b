// GPUs that the system shows, whether or not a driver of OpenCL does: for whoever tells a user what is missing.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "opencl/device/icd_loader.h"

namespace gemel::opencl {

struct GpuNode {
  std::filesystem::path node;  // /dev/nvidia0
  std::string maker;           // "NVIDIA"; empty: any
  std::string library;         // of its driver; empty: that may be one of several
  std::string package;         // that brings the driver
  bool may_open = false;       // by this user
  bool has_driver = false;     // among those that are installed
};
/// @param installed  drivers  @param root  where dev lies
std::vector<GpuNode> gpu_nodes(const std::vector<DriverFile>& installed, const std::filesystem::path& root = "/");

}  // namespace gemel::opencl
