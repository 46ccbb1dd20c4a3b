// gemel_kernels: each distinct operator of a model's step by itself, on the device, against the roofline measured on the spot.
//
//   gemel_kernels train|infer --model resnet50 --batch-size 8 [--input 3x224x224] [--op conv2d] [--variants all] [--runs 10]
//
// A line: the best time of the variant that dispatch chooses (or of all that support the problem), its rate, and its share of the
// bound max(FLOPs / peak, bytes / bandwidth), which the operator's record gives for the problem. `count` is how often the step has it;
// the last column is its time in the whole step.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "benchmarks/benchmark_main.h"
#include "engine/base/error.h"
#include "engine/device_storage.h"
#include "engine/dispatch.h"
#include "engine/ops/ops.h"
#include "frontends/cli/common_options.h"
#include "frontends/cli/model_options.h"
#include "frontends/cli/planned_step.h"
#include "frontends/models/models.h"

namespace gemel {
namespace {

using opencl::Device;
using opencl::Region;

double best_seconds(Device& device, int runs, const std::function<void()>& enqueue) {
  double best = 1e30;
  for (int i = 0; i <= runs; ++i) {  // the first builds
    const auto begin = std::chrono::steady_clock::now();
    enqueue();
    device.finish();
    if (i) best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

struct Roofline {
  double flops, bytes;  // a second
  double bound(const Cost& c) const { return std::max(static_cast<double>(c.flops) / flops, static_cast<double>(c.bytes) / bytes); }
};

/// Independent chains of fused multiply-adds in registers; and a sum of one array into another, both larger than any cache.
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
  Device& device = session.device();
  constexpr std::int64_t kSteps = 1 << 18, kElements = 1 << 26, kChunk = 1 << 14;
  const std::int64_t groups = 4 * device.profile().compute_units;
  const Value x = session.empty(f32({kElements})), y = session.empty(f32({kElements}));
  const auto kernel = [&](const char* name) -> opencl::Kernel& { return device.generated_kernel("roofline", [&] { return std::string(source); }, name); };
  opencl::Kernel &peak = kernel("fma_peak"), &stream = kernel("stream");
  const double fma = best_seconds(device, 5, [&] { device.run(peak, opencl::range1(groups, 1), {region_of(y), 0.5f, kSteps}); });
  const double memory = best_seconds(device, 5, [&] { device.run(stream, opencl::range1(kElements / kChunk, 1), {region_of(x), region_of(y), kChunk}); });
  return {2.0 * 16 * 20 * static_cast<double>(kSteps * groups) / fma, 12.0 * static_cast<double>(kElements) / memory};
}

/// Memory with defined contents: small real numbers, indices of 0.
Value filled(Session& session, const Spec& spec) {
  if (spec.dtype != DType::float32) return session.tensor(spec, std::vector<std::byte>(static_cast<std::size_t>(spec.bytes())));
  return random_uniform(session, spec.shape, -1, 1);
}

struct Case {
  const Program::Instruction* instruction;
  Specs in, out;
  std::int64_t count = 0;
};

std::vector<Case> distinct(const Program& program, const std::string& op) {
  std::vector<Case> cases;
  std::map<std::string, std::size_t> known;
  for (const Program::Instruction& i : program.code) {
    if (i.op->views || i.op->execute || (!op.empty() && i.op->name != op)) continue;
    Case c{&i, {}, {}};
    for (const auto& use : i.inputs) c.in.push_back(use.spec);
    for (const auto& use : i.outputs) c.out.push_back(use.spec);
    const auto [at, fresh] = known.try_emplace(i.op->name + to_string(Problem{*i.op, i.attributes, c.in, c.out}), cases.size());
    if (fresh) cases.push_back(std::move(c));
    ++cases[at->second].count;
  }
  return cases;
}

void measure(Session& session, const Case& c, bool all_variants, int runs, const Roofline& roofline) {
  Device& device = session.device();
  const Problem problem{*c.instruction->op, c.instruction->attributes, c.in, c.out};
  Values values;
  std::vector<Region> in, out;
  for (const Spec& s : c.in) in.push_back(region_of(values.emplace_back(filled(session, s))));
  for (const Spec& s : c.out) out.push_back(region_of(values.emplace_back(session.empty(s))));
  const Variant& chosen = choose(problem, device.profile());
  for (const Variant& v : problem.op.variants) {
    if (&v != &chosen && (!all_variants || v.declines(problem, device.profile()))) continue;
    const double seconds = best_seconds(device, runs, [&] { launch(device, v, problem, in, out); });
    const Cost cost = problem.op.cost ? problem.op.cost(problem) : Cost{};
    fmt::print("{:>9.3f} ms {:>8.1f} GFLOP/s {:>7.1f} GB/s {:>4.0f} % {:>4} x {:>9.2f} ms  {}/{}{} {}\n", 1e3 * seconds,
               1e-9 * static_cast<double>(cost.flops) / seconds, 1e-9 * static_cast<double>(cost.bytes) / seconds, 100 * roofline.bound(cost) / seconds,
               c.count, 1e3 * seconds * static_cast<double>(c.count), problem.op.name, v.name, &v == &chosen ? "*" : "", to_string(problem));
    std::fflush(stdout);
  }
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  options.add_options()
      ("work", po::value<std::string>()->required(), "train or infer")
      ("model", po::value<std::string>()->default_value("resnet50"), cli::model_help().c_str())
      ("batch-size", po::value<std::int64_t>()->default_value(8), "pictures at a time")
      ("input", po::value<std::string>()->default_value("3x224x224"), "CxHxW")
      ("op", po::value<std::string>()->default_value(""), "only this operator")
      ("variants", po::value<std::string>()->default_value("chosen"), "chosen or all")
      ("runs", po::value<int>()->default_value(10), "the best of so many counts");
  cli::add_common_options(options);
  po::positional_options_description positional;
  positional.add("work", 1);
  const auto v = cli::parse("kernels", "Each distinct operator of a model's step against the roofline.", options, arguments, positional);
  cli::check_choice("kernels", v["work"].as<std::string>(), {"train", "infer"});
  cli::check_choice("--variants", v["variants"].as<std::string>(), {"chosen", "all"});
  const Shape input(cli::parse_extents("--input", v["input"].as<std::string>(), 3));
  const auto model = models::make(cli::model_name(v), {.channels = input[0]});
  const auto host = Session::reference();
  const Program program = cli::capture_step(*host, *model, f32({cli::whole_number(v, "batch-size", 1, 1e6), input[1], input[2], input[0]}),
                                            v["work"].as<std::string>() == "train" ? cli::Work::train : cli::Work::infer);
  const auto device = Device::open(cli::common_options(v).device);
  cli::say_device(device->profile());
  Session session(*device);
  const Roofline roofline = measure_roofline(session);
  fmt::print("peak {:.1f} GFLOP/s, memory {:.1f} GB/s\n", 1e-9 * roofline.flops, 1e-9 * roofline.bytes);
  for (const Case& c : distinct(program, v["op"].as<std::string>())) measure(session, c, v["variants"].as<std::string>() == "all", v["runs"].as<int>(), roofline);
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_kernels", gemel::run, count, values); }
