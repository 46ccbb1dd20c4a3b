// gemel roofline: what each operator of a step moves and computes, against what the device can do at most; counted, nothing of it runs.
#include "frontends/cli/run/roofline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/passes/passes.h"
#include "frontends/cli/command.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/run/counted_step.h"
#include "frontends/cli/run/planned_step.h"
#include "opencl/device/pretended_gpu.h"

namespace gemel::cli {
namespace {

constexpr double kBillion = 1e9, kMillion = 1e6, kMillisecond = 1e-3;

/// What is stated of the device, or else measured.
Roofline bounds_of(Session& session) {
  const opencl::DeviceProfile& p = session.device().profile();
  if (p.stated_gflops > 0 && p.stated_gbs > 0) return {p.stated_gflops * kBillion, p.stated_gbs * kBillion, p.stated_gbs * kBillion};
  Roofline out = measure_roofline(session);
  if (p.stated_gflops > 0) out.flops = p.stated_gflops * kBillion;
  if (p.stated_gbs > 0) out.bytes = out.reads = p.stated_gbs * kBillion;
  return out;
}

Work parse_work(const std::string& text) {
  if (text == "train") return Work::train;
  if (text == "infer") return Work::infer;
  throw UsageError(fmt::format("--work: '{}' is given; accepted: train, infer", text));
}

/// @throws UsageError in the option's name
void pretend_by_option(const std::string& pretence) {
  opencl::DeviceProfile any;
  opencl::pretend(any, pretence, "--pretend");
  ::setenv(opencl::kPretendVariable, pretence.c_str(), 1);
}

double in(double unit, std::int64_t number) { return static_cast<double>(number) / unit; }

void print(const CountedStep& step, const Roofline& bounds, std::size_t most) {
  const double all = step.seconds(bounds);
  fmt::print("{:>9} {:>5}  {:>5} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7}  {}\n", "ms", "share", "times", "launches", "MB", "cached MB", "least MB", "GFLOP",
             "groups", "operator, variant: kernels");
  for (std::size_t i = 0; i < std::min(most, step.operators.size()); ++i) {
    const CountedOperator& o = step.operators[i];
    fmt::print("{:>9.3f} {:>4.0f}%  {:>5} {:>8} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.3f} {:>7}  {} {}, {}: {}\n", o.seconds(bounds) / kMillisecond,
               all > 0 ? 100 * o.seconds(bounds) / all : 0, o.count, o.count * o.launches, in(kMillion, o.count * o.bytes),
               in(kMillion, o.count * o.cached_bytes), in(kMillion, o.count * o.least_bytes), in(kBillion, o.count * o.flops),
               o.fewest_groups ? fmt::to_string(o.fewest_groups) : "", o.name, o.problem, o.variant, fmt::join(o.kernels, " "));
  }
  if (most < step.operators.size()) fmt::print("and {} others; --rows 0 prints all\n", step.operators.size() - most);
  fmt::print(
      "\nlaunches   {}\nmoved      {:.3f} GB\ncached     {:.3f} GB\nleast      {:.3f} GB, of which the step moves {:.2f} times as much\ncomputed   {:.3f} "
      "GFLOP\n"
      "least time {:.3f} ms at {}\n",
      step.launches(), in(kBillion, step.bytes()), in(kBillion, step.cached_bytes()), in(kBillion, step.least_bytes()),
      in(1, step.bytes()) / in(1, std::max<std::int64_t>(1, step.least_bytes())), in(kBillion, step.flops()), all / kMillisecond, to_string(bounds));
}

nlohmann::ordered_json json_of(const CountedStep& step, const Roofline& bounds) {
  auto rows = nlohmann::ordered_json::array();
  for (const CountedOperator& o : step.operators)
    rows.push_back({{"operator", o.name},
                    {"problem", o.problem},
                    {"variant", o.variant},
                    {"kernels", o.kernels},
                    {"times", o.count},
                    {"launches", o.launches},
                    {"bytes", o.bytes},
                    {"cached_bytes", o.cached_bytes},
                    {"least_bytes", o.least_bytes},
                    {"flops", o.flops},
                    {"fewest_groups", o.fewest_groups ? nlohmann::ordered_json(o.fewest_groups) : nlohmann::ordered_json()},
                    {"seconds", o.seconds(bounds)},
                    {"bound", o.is_bound_by_flops(bounds) ? "flops" : "bytes"}});
  return {{"operators", rows},
          {"launches", step.launches()},
          {"bytes", step.bytes()},
          {"cached_bytes", step.cached_bytes()},
          {"least_bytes", step.least_bytes()},
          {"flops", step.flops()},
          {"seconds", step.seconds(bounds)},
          {"flops_per_second", bounds.flops},
          {"bytes_per_second", bounds.bytes}};
}

}  // namespace

int roofline(const Arguments& arguments) {
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("model", po::value<std::string>()->required(), model_help().c_str());
  option("input", po::value<std::string>()->default_value(""), made_up_input_help().c_str());
  option("batch-size", po::value<std::int64_t>()->default_value(32), "samples at a time");
  option("classes", po::value<std::int64_t>()->default_value(1000), "size of the last layer; 2 for texts where it is not given");
  option("work", po::value<std::string>()->default_value("train"), "train: a training step but for its update; infer: a forward pass");
  option("pretend", po::value<std::string>()->default_value(""),
         "count for another GPU, such as gpu:name=h100 or gpu:units=60,wave=64,gflops=13800,gbs=1024; as GEMEL_PRETEND");
  option("rows", po::value<std::int64_t>()->default_value(30), "operators that are printed; 0: all");
  option("json", po::bool_switch(), "machine-readable output");
  add_domain_options(options, domains::OptionUse::model);
  add_frontend_option(options);
  add_device_options(options);
  const auto v = parse("roofline",
                       "Launches, bytes and FLOPs of each operator of a step against what the device can do at most, the longest first.\n"
                       "They are counted: the step does not run.",
                       options, arguments);
  const domains::RunOptions of_run = run_options(v);
  const std::int64_t batch = whole_number(v, "batch-size", 1, 1e6), rows = whole_number(v, "rows", 0, 1e6);
  const Work work = parse_work(v["work"].as<std::string>());
  const Frontend frontend = frontend_option(v);
  if (const auto& pretence = v["pretend"].as<std::string>(); !pretence.empty()) pretend_by_option(pretence);
  Session session(opencl::Device::open(device_options(v)));
  const opencl::DeviceProfile& profile = session.device().profile();
  const auto workload = made_up_once(of_run, batch).open();
  const auto model = workload->model();
  Program program = capture_step(session, *workload->task(*model), workload->batch(batch), work);
  if (frontend == Frontend::graph) program = optimise(session, std::move(program), parse_passes("all"));
  const Roofline bounds = bounds_of(session);
  const CountedStep step = count_step(program, profile, bounds);
  if (v["json"].as<bool>()) {
    fmt::print("{}\n", json_of(step, bounds).dump(2));
  } else {
    say_device(profile);
    print(step, bounds, rows ? static_cast<std::size_t>(rows) : step.operators.size());
  }
  return 0;
}

}  // namespace gemel::cli
