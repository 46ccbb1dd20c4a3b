// Bytes that kernels load from and store to global memory: as oclgrind executes them, and as `gemel roofline` counts them.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/core/op.h"
#include "engine/core/session.h"
#include "opencl/device/counted_launch.h"

namespace gemel::testing {

struct Traffic {
  double loaded = 0, stored = 0;  // bytes
};
using TrafficByKernel = std::map<std::string, Traffic>;

/// A kernel's part in a problem.
struct KernelOfSample {
  const Sample& sample;
  std::int64_t groups;
  double read;                                  // bytes of its buffers, each once
  std::map<std::string, std::int64_t> options;  // -DNAME=NUMBER of its program

  double of(const char* option) const { return static_cast<double>(options.at(option)); }
  /// Extent of an input's axis; from the end where it is negative.
  double extent(std::size_t input, int axis) const;
  double elements(std::size_t input) const { return static_cast<double>(sample.inputs[input].elements()); }
};
/// Elements of four bytes that a kernel loads beside each of its buffers once: what it loads again, out of caches on a GPU.
using LoadedAgain = std::function<double(const KernelOfSample&)>;

struct TrafficCase {
  std::string name;
  const OpDef& op;
  const char* variant;
  std::vector<Sample> samples;
  std::map<std::string, LoadedAgain> again;  // by kernel; without an entry: nothing

  const Variant& its_variant() const;
};

/// What `gemel roofline` counts, and what is loaded again.
TrafficByKernel counted_traffic(const TrafficCase& c, const Sample& sample, const opencl::DeviceProfile& profile);
/// What the kernels do. The session's device is oclgrind's, opened where OCLGRIND_INST_COUNTS is 1: it writes what each kernel did to the standard output.
TrafficByKernel executed_traffic(const TrafficCase& c, const Sample& sample, Session& session);

}  // namespace gemel::testing
