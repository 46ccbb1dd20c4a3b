#include "frontends/cli/run/roofline.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/device/device_memory.h"
#include "engine/ops/ops.h"
#include "frontends/cli/run/operator_run.h"

namespace gemel::cli {

double Roofline::seconds(const Problem& p) const {
  if (!p.op.cost) return 0;
  const Cost cost = p.op.cost(p);
  std::int64_t written = 0;
  for (const Spec& s : p.outputs) written += s.bytes();
  for (int i : p.op.writes) written += p.inputs[static_cast<std::size_t>(i)].bytes();
  return std::max({static_cast<double>(cost.flops) / flops, static_cast<double>(cost.bytes) / bytes, static_cast<double>(cost.bytes - written) / reads});
}

std::string to_string(const Roofline& r) {
  return fmt::format("peak {:.1f} GFLOP/s, memory {:.1f} GB/s, reading alone {:.1f} GB/s", 1e-9 * r.flops, 1e-9 * r.bytes, 1e-9 * r.reads);
}

namespace {

constexpr std::int64_t kElements = 1 << 26, kLine = 16;  // floats of an array; of a cache line
constexpr int kStreams = 16;                             // that a group reads (measured: 8 give a twentieth less, one a third)
constexpr std::int64_t kGroup = 256;                     // work-items of a GPU's
/// For a CPU: a group is a work-item, with vectors of its own.
constexpr const char* kOfCpu = R"(
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fma_peak(__global float* y, const float a, const long steps) {
  lanes v[CHAINS];
  for (int i = 0; i < CHAINS; ++i) v[i] = (lanes)(i + get_group_id(0));
  for (long s = 0; s < steps; ++s)
    __attribute__((opencl_unroll_hint)) for (int i = 0; i < CHAINS; ++i) v[i] = fma(v[i], (lanes)a, v[i]);
  lanes sum = 0;
  for (int i = 0; i < CHAINS; ++i) sum += v[i];
  ((__global lanes*)y)[get_group_id(0)] = sum;
}
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void stream(__global const float* restrict x, __global float* restrict y, const long chunk) {
  for (long i = get_group_id(0) * chunk; i < (get_group_id(0) + 1) * chunk; i += 16) vstore16(vload16(0, x + i) + vload16(0, y + i), 0, y + i);
}
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void reading(__global const float* restrict x, __global float* restrict sums, const long stream) {
  float16 sum[STREAMS];
  for (int s = 0; s < STREAMS; ++s) sum[s] = 0;
  __global const float* from = x + get_group_id(0) * STREAMS * stream;
  for (long i = 0; i < stream; i += 16)
    __attribute__((opencl_unroll_hint)) for (int s = 0; s < STREAMS; ++s) sum[s] += vload16(0, from + s * stream + i);
  for (int s = 1; s < STREAMS; ++s) sum[0] += sum[s];
  vstore16(sum[0], get_group_id(0), sums);
})";
/// For a GPU: neighbouring work-items take neighbouring floats.
constexpr const char* kOfGpu = R"(
__kernel void fma_peak(__global float* y, const float a, const long steps) {
  float v[CHAINS];
  for (int i = 0; i < CHAINS; ++i) v[i] = i + get_global_id(0);
  for (long s = 0; s < steps; ++s)
    __attribute__((opencl_unroll_hint)) for (int i = 0; i < CHAINS; ++i) v[i] = fma(v[i], a, v[i]);
  float sum = 0;
  for (int i = 0; i < CHAINS; ++i) sum += v[i];
  y[get_global_id(0)] = sum;
}
__kernel void stream(__global const float* restrict x, __global float* restrict y, const long chunk) {
  const long i = 4 * get_global_id(0);
  vstore4(vload4(0, x + i) + vload4(0, y + i), 0, y + i);
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void reading(__global const float* restrict x, __global float* restrict sums, const long stream) {
  float4 sum = 0;
  for (long i = 0; i < STREAMS * stream; i += 4 * GROUP) sum += vload4(0, x + get_group_id(0) * STREAMS * stream + i + 4 * get_local_id(0));
  sums[get_global_id(0)] = sum.x + sum.y + sum.z + sum.w;
})";

int lanes_of(const opencl::Device& device) { return !device.profile().is_cpu() ? 1 : device.profile().has_wide_vectors() ? 16 : 8; }
/// As many chains as registers hold beside their factor: what does not fit would be stored and loaded again.
int chains_of(const opencl::Device& device) { return lanes_of(device) == 8 ? 12 : 20; }
std::int64_t group_of(const opencl::Device& device) { return device.profile().is_cpu() ? 1 : kGroup; }
/// Enough for each unit to have several, which hide each other's waits.
std::int64_t groups_of(const opencl::Device& device) { return (device.profile().is_cpu() ? 4 : 32) * device.profile().compute_units; }

opencl::Kernel& kernel_of(opencl::Device& device, const char* name) {
  return device.generated_kernel(
      "roofline",
      [&] {
        return fmt::format("typedef float{} lanes;\n#define CHAINS {}\n#define STREAMS {}\n#define GROUP {}\n",
                           lanes_of(device) == 1 ? "" : fmt::to_string(lanes_of(device)), chains_of(device), kStreams, kGroup) +
               (device.profile().is_cpu() ? kOfCpu : kOfGpu);
      },
      name);
}

/// Enqueues so many groups.
void run(opencl::Device& device, opencl::Kernel& kernel, std::int64_t groups, std::initializer_list<opencl::Argument> arguments) {
  device.run(kernel, opencl::range1(groups * group_of(device), group_of(device)), arguments);
}

}  // namespace

// Streams of an odd number of lines: at whole powers of two apart they would compete for one set of the caches. On a GPU a group's are one,
// of which each turn takes a float4 for each work-item.
ReadingAlone::ReadingAlone(Session& session)
    : device_(session.device()),
      kernel_(kernel_of(device_, "reading")),
      groups_(groups_of(device_)),
      stream_(device_.profile().is_cpu() ? ((kElements / kLine / (groups_ * kStreams) - 1) | 1) * kLine
                                         : kElements / groups_ / (4 * kGroup) * (4 * kGroup) / kStreams),
      // Written before it is read: pages that were never written are all the same one, which the caches hold.
      array_(full(session, f32({kElements}), 1)),
      sums_(full(session, f32({groups_ * std::max(kLine, group_of(device_))}), 0)) {}

void ReadingAlone::enqueue() { run(device_, kernel_, groups_, {region_of(array_), region_of(sums_), stream_}); }
std::int64_t ReadingAlone::bytes() const { return 4 * groups_ * kStreams * stream_; }

Roofline measure_roofline(Session& session) {
  opencl::Device& device = session.device();
  const bool on_cpu = device.profile().is_cpu();
  const std::int64_t steps = on_cpu ? 1 << 18 : 1 << 14, chunk = on_cpu ? 1 << 14 : 4 * kGroup, groups = groups_of(device);
  const Value x = full(session, f32({kElements}), 1), y = full(session, f32({kElements}), 0);
  opencl::Kernel &peak = kernel_of(device, "fma_peak"), &stream = kernel_of(device, "stream");
  const double fma = best_seconds(device, 5, [&] { run(device, peak, groups, {region_of(y), 0.5f, steps}); });
  const double memory = best_seconds(device, 5, [&] { run(device, stream, kElements / chunk, {region_of(x), region_of(y), chunk}); });
  ReadingAlone reading(session);
  const double reads = best_seconds(device, 5, [&] { reading.enqueue(); });
  return {2.0 * lanes_of(device) * chains_of(device) * static_cast<double>(steps * groups * group_of(device)) / fma,
          12.0 * static_cast<double>(kElements) / memory, static_cast<double>(reading.bytes()) / reads};
}

}  // namespace gemel::cli
