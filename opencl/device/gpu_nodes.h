// Device nodes of GPUs, with or without an OpenCL driver, to tell users which driver is missing.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "opencl/device/icd_loader.h"

namespace gemel::opencl {

struct GpuNode {
  std::filesystem::path node;  // /dev/nvidia0
  std::string maker;           // "NVIDIA"; empty: any
  std::string library;         // library of its driver; empty: one of several
  std::string package;         // package that provides the driver
  bool may_open = false;       // this user may open the node
  bool has_driver = false;     // a driver for it is installed
};
/// GPUs of the machine. @param installed  drivers  @param root  folder that holds dev
std::vector<GpuNode> gpu_nodes(const std::vector<DriverFile>& installed, const std::filesystem::path& root = "/");

}  // namespace gemel::opencl
