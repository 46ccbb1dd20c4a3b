#include "benchmarks/roofline.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/device_storage.h"
#include "engine/ops/ops.h"
#include "frontends/cli/operator_run.h"

namespace gemel {

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

Roofline measure_roofline(Session& session) {
  constexpr const char* source = R"(
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
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void reading(__global const float* restrict x, __global float* restrict sums, const long chunk) {
  float16 a = 0, b = 0, c = 0, d = 0;
  __global const float* from = x + get_group_id(0) * chunk;
  for (long i = 0; i < chunk; i += 64) {
    a += vload16(0, from + i);
    b += vload16(1, from + i);
    c += vload16(2, from + i);
    d += vload16(3, from + i);
  }
  vstore16(a + b + c + d, get_group_id(0), sums);
})";
  opencl::Device& device = session.device();
  constexpr std::int64_t kSteps = 1 << 18, kElements = 1 << 26, kChunk = 1 << 14;
  const std::int64_t groups = 4 * device.profile().compute_units, share = kElements / groups / 64 * 64;
  // Written before it is read: pages that were never written are all the same one, which the caches hold.
  const Value x = full(session, f32({kElements}), 1), y = full(session, f32({kElements}), 0);
  // As many chains as registers hold beside their factor: what does not fit would be stored and loaded again.
  const int lanes = device.profile().has_wide_vectors() ? 16 : 8, chains = lanes == 16 ? 20 : 12;
  const std::string types = fmt::format("typedef float{} lanes;\n#define CHAINS {}\n", lanes, chains);
  const auto kernel = [&](const char* name) -> opencl::Kernel& { return device.generated_kernel("roofline", [&] { return types + source; }, name); };
  opencl::Kernel &peak = kernel("fma_peak"), &stream = kernel("stream"), &reading = kernel("reading");
  const double fma = cli::best_seconds(device, 5, [&] { device.run(peak, opencl::range1(groups, 1), {region_of(y), 0.5f, kSteps}); });
  const double memory = cli::best_seconds(device, 5, [&] { device.run(stream, opencl::range1(kElements / kChunk, 1), {region_of(x), region_of(y), kChunk}); });
  const double reads = cli::best_seconds(device, 5, [&] { device.run(reading, opencl::range1(groups, 1), {region_of(x), region_of(y), share}); });
  return {2.0 * lanes * chains * static_cast<double>(kSteps * groups) / fma, 12.0 * static_cast<double>(kElements) / memory,
          4.0 * static_cast<double>(share * groups) / reads};
}

}  // namespace gemel
