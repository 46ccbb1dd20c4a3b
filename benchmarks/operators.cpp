#include "benchmarks/operators.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "engine/device_storage.h"
#include "engine/dispatch.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

Value filled(Session& session, const Spec& spec) {
  if (spec.dtype != DType::float32) return session.tensor(spec, std::vector<std::byte>(static_cast<std::size_t>(spec.bytes())));
  return random_uniform(session, spec.shape, -1, 1);
}

}  // namespace

std::vector<OperatorCase> distinct_operators(const Program& program) {
  std::vector<OperatorCase> cases;
  std::map<std::string, std::size_t> known;
  for (const Program::Instruction& i : program.code) {
    if (i.op->views || i.op->execute) continue;
    OperatorCase c{i.op, i.attributes, {}, {}};
    for (const auto& use : i.inputs) c.in.push_back(use.spec);
    for (const auto& use : i.outputs) c.out.push_back(use.spec);
    const auto [at, fresh] = known.try_emplace(i.op->name + to_string(c.problem()), cases.size());
    if (fresh) cases.push_back(std::move(c));
    else ++cases[at->second].count;
  }
  return cases;
}

OperatorRun::OperatorRun(Session& session, const OperatorCase& c) : session_(session), case_(c) {
  for (const Spec& s : c.in) in_.push_back(region_of(values_.emplace_back(filled(session, s))));
  for (const Spec& s : c.out) out_.push_back(region_of(values_.emplace_back(session.empty(s))));
}

void OperatorRun::enqueue(const Variant& variant) { launch(session_.device(), variant, case_.problem(), in_, out_); }

double best_seconds(opencl::Device& device, int runs, const std::function<void()>& enqueue) {
  double best = 1e30;
  for (int i = 0; i <= runs; ++i) {  // the first builds
    const auto begin = std::chrono::steady_clock::now();
    enqueue();
    device.finish();
    if (i) best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

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
  const Value x = session.empty(f32({kElements})), y = session.empty(f32({kElements}));
  const auto kernel = [&](const char* name) -> opencl::Kernel& { return device.generated_kernel("roofline", [&] { return std::string(source); }, name); };
  opencl::Kernel &peak = kernel("fma_peak"), &stream = kernel("stream");
  const double fma = best_seconds(device, 5, [&] { device.run(peak, opencl::range1(groups, 1), {region_of(y), 0.5f, kSteps}); });
  const double memory = best_seconds(device, 5, [&] { device.run(stream, opencl::range1(kElements / kChunk, 1), {region_of(x), region_of(y), kChunk}); });
  return {2.0 * 16 * 20 * static_cast<double>(kSteps * groups) / fma, 12.0 * static_cast<double>(kElements) / memory};
}

}  // namespace gemel
