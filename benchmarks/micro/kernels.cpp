// gemel_kernels: each distinct operator of a model's step by itself, on the device, against the roofline measured on the spot.
//
//   gemel_kernels train|infer --model resnet50 --batch-size 8 [--input 3x224x224] [--op conv2d] [--variants all] [--runs 10]
//
// A line: the best time of the variant that dispatch chooses (or of all that support the problem), its rate, its share of the bound
// max(FLOPs / peak, bytes / bandwidth, bytes read / bandwidth of reading alone), which the operator's record gives for the problem, how often
// the step has it, its time in the whole step, and the problem. The bandwidths are the memory's, and each run finds the operands as the one
// before it left them: what fits in a cache may be beyond 100 %.
#include <fmt/format.h>

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/micro/benchmark_main.h"
#include "engine/device/dispatch.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/run/operator_run.h"
#include "frontends/cli/run/planned_step.h"
#include "frontends/cli/run/roofline.h"

namespace gemel {
namespace {

using cli::OperatorCase;
using cli::OperatorRun;

void measure(Session& session, const OperatorCase& c, bool all_variants, int runs, const cli::Roofline& roofline) {
  opencl::Device& device = session.device();
  const Problem problem = c.problem();
  OperatorRun operator_run(session, c);
  const Variant& chosen = choose(problem, device.profile());
  for (const Variant& v : problem.op.variants) {
    if (&v != &chosen && (!all_variants || declines(v, problem, device.profile()))) continue;
    const double seconds = cli::best_seconds(device, runs, [&] { operator_run.enqueue(v); });
    const Cost cost = problem.op.cost ? problem.op.cost(problem) : Cost{};
    fmt::print("{:>9.3f} ms {:>8.1f} GFLOP/s {:>7.1f} GB/s {:>4.0f} % {:>4} x {:>9.2f} ms  {}/{}{} {}\n", 1e3 * seconds,
               1e-9 * static_cast<double>(cost.flops) / seconds, 1e-9 * static_cast<double>(cost.bytes) / seconds, 100 * roofline.seconds(problem) / seconds,
               c.count, 1e3 * seconds * static_cast<double>(c.count), problem.op.name, v.name, &v == &chosen ? "*" : "", to_string(problem));
    std::fflush(stdout);
  }
}

/// Each operator once, in the order of the alphabet.
std::vector<std::string> names_of(const std::vector<OperatorCase>& cases) {
  std::set<std::string> names;
  for (const OperatorCase& c : cases) names.emplace(c.op->name);
  return {names.begin(), names.end()};
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("work", po::value<std::string>()->required(), "train or infer");
  option("model", po::value<std::string>()->default_value("resnet50"), cli::model_help().c_str());
  option("batch-size", po::value<std::int64_t>()->default_value(8), "samples at a time");
  option("input", po::value<std::string>()->default_value(""), cli::made_up_input_help().c_str());
  option("classes", po::value<std::int64_t>()->default_value(1000), "size of the last layer; 2 for texts");
  option("op", po::value<std::string>()->default_value(""), "only this operator");
  option("variants", po::value<std::string>()->default_value("chosen"), "chosen or all");
  option("runs", po::value<std::int64_t>()->default_value(10), "the best of so many counts");
  cli::add_domain_options(options, domains::OptionUse::model);
  cli::add_device_options(options);
  po::positional_options_description positional;
  positional.add("work", 1);
  const auto v = cli::parse("gemel_kernels", "Each distinct operator of a model's step against the roofline.", options, arguments, positional);
  check_choice("gemel_kernels", v["work"].as<std::string>(), {"train", "infer"});
  check_choice("--variants", v["variants"].as<std::string>(), {"chosen", "all"});
  const auto runs = static_cast<int>(cli::whole_number(v, "runs", 1, 1e6));
  const std::int64_t batch = cli::whole_number(v, "batch-size", 1, 1e6);
  const auto workload = cli::made_up_once(cli::run_options(v), batch).open();
  const auto model = workload->model();
  const auto host = Session::reference();
  const Program program =
      cli::capture_step(*host, *workload->task(*model), workload->batch(batch), v["work"].as<std::string>() == "train" ? cli::Work::train : cli::Work::infer);
  const std::vector<OperatorCase> cases = cli::distinct_operators(program);
  const auto op = v["op"].as<std::string>();
  if (!op.empty()) check_choice("--op", op, names_of(cases));
  const auto device = opencl::Device::open(cli::device_options(v));
  cli::say_device(device->profile());
  Session session(device);
  const cli::Roofline roofline = cli::measure_roofline(session);
  fmt::print("{}\n", to_string(roofline));
  for (const OperatorCase& c : cases)
    if (op.empty() || op == c.op->name) measure(session, c, v["variants"].as<std::string>() == "all", runs, roofline);
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_kernels", gemel::run, count, values); }
