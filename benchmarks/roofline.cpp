#include "benchmarks/roofline.h"

#include <algorithm>

#include "engine/device_storage.h"
#include "engine/ops/ops.h"
#include "frontends/cli/operator_run.h"

namespace gemel {

double Roofline::seconds(const Cost& c) const {
  return std::max(static_cast<double>(c.flops) / flops, static_cast<double>(c.bytes) / bytes);
}

Roofline measure_roofline(Session& session) {
  constexpr const char* source = R"(
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fma_peak(__global float* y, const float a, const long steps) {
  float16 v[20];
  for (int i = 0; i < 20; ++i) v[i] = (float16)(i + get_group_id(0));
  for (long s = 0; s < steps; ++s)
    __attribute__((opencl_unroll_hint)) for (int i = 0; i < 20; ++i) v[i] = fma(v[i], (float16)a, v[i]);
  float16 sum = 0;
  for (int i = 0; i < 20; ++i) sum += v[i];
  vstore16(sum, get_group_id(0), y);
}
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void stream(__global const float* restrict x, __global float* restrict y, const long chunk) {
  for (long i = get_group_id(0) * chunk; i < (get_group_id(0) + 1) * chunk; i += 16) vstore16(vload16(0, x + i) + vload16(0, y + i), 0, y + i);
})";
  opencl::Device& device = session.device();
  constexpr std::int64_t kSteps = 1 << 18, kElements = 1 << 26, kChunk = 1 << 14;
  const std::int64_t groups = 4 * device.profile().compute_units;
  // Written before it is read: pages that were never written are all the same one, which the caches hold.
  const Value x = full(session, f32({kElements}), 1), y = full(session, f32({kElements}), 0);
  const auto kernel = [&](const char* name) -> opencl::Kernel& { return device.generated_kernel("roofline", [&] { return std::string(source); }, name); };
  opencl::Kernel &peak = kernel("fma_peak"), &stream = kernel("stream");
  const double fma = cli::best_seconds(device, 5, [&] { device.run(peak, opencl::range1(groups, 1), {region_of(y), 0.5f, kSteps}); });
  const double memory = cli::best_seconds(device, 5, [&] { device.run(stream, opencl::range1(kElements / kChunk, 1), {region_of(x), region_of(y), kChunk}); });
  return {2.0 * 16 * 20 * static_cast<double>(kSteps * groups) / fma, 12.0 * static_cast<double>(kElements) / memory};
}

}  // namespace gemel
