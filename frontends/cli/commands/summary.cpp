// gemel summary: layers, shapes, parameters, FLOPs and memory of a model, computed from shapes alone.
#include "frontends/nn/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/error.h"
#include "frontends/cli/command.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/run/planned_step.h"
#include "frontends/cli/system/units.h"
#include "frontends/distributed/pipeline/model_cut.h"

namespace gemel::cli {
namespace {

struct Totals {
  std::int64_t parameters = 0, parameter_bytes = 0, gradient_bytes = 0, flops = 0, activation_bytes = 0;
  std::optional<std::int64_t> arena_bytes;
  std::string no_training;  // why there is no arena: batch normalisation, for one, takes more than one value a channel
};

Totals totals_of(train::Task& task, const std::vector<nn::LayerSummary>& layers, const Specs& batch) {
  nn::Module& model = task.module();
  Totals t;
  t.parameters = model.parameter_elements();  // also of layers that run in training only
  t.parameter_bytes = state_bytes(model);
  t.gradient_bytes = slab_bytes(model);
  for (const auto& l : layers) {
    t.flops += l.flops;
    t.activation_bytes += l.activation_bytes;
  }
  try {
    t.arena_bytes = plan_step(task, batch, Work::train).arena_bytes;
  } catch (const ShapeError& e) {
    t.no_training = e.what();
  }
  return t;
}

void print(const std::vector<nn::LayerSummary>& layers, const Totals& t) {
  std::size_t path = 5, about = 5;
  for (const auto& l : layers) {
    path = std::max(path, l.path.size());
    about = std::max(about, l.description.size());
  }
  fmt::print("{:<{}}  {:<{}}  {:<20} {:>12} {:>10} {:>10}\n", "layer", path, "kind", about, "output", "parameters", "MFLOPs", "MiB");
  for (const auto& l : layers)
    fmt::print("{:<{}}  {:<{}}  {:<20} {:>12} {:>10.2f} {:>10.2f}\n", l.path.empty() ? "." : l.path, path, l.description, about, to_string(l.output.shape),
               l.parameters, 1e-6 * static_cast<double>(l.flops), mebibytes(l.activation_bytes));
  const std::string training = t.arena_bytes
                                   ? fmt::format("{:.2f} MiB: parameters and statistics, gradients, and an arena of {:.2f} MiB (without optimizer state)",
                                                 mebibytes(t.parameter_bytes + t.gradient_bytes + *t.arena_bytes), mebibytes(*t.arena_bytes))
                                   : fmt::format("nothing, it cannot train on this input: {}", t.no_training);
  fmt::print("\nparameters           {} ({:.2f} MiB)\nforward              {:.3f} GFLOPs\nactivations          {:.2f} MiB forward\nplanned for training {}\n",
             t.parameters, mebibytes(t.parameter_bytes), 1e-9 * static_cast<double>(t.flops), mebibytes(t.activation_bytes), training);
}

nlohmann::ordered_json json_of(const std::vector<nn::LayerSummary>& layers, const Totals& t) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& l : layers)
    rows.push_back({{"layer", l.path},
                    {"kind", l.description},
                    {"output", std::vector<std::int64_t>(l.output.shape.begin(), l.output.shape.end())},
                    {"parameters", l.parameters},
                    {"flops", l.flops},
                    {"activation_bytes", l.activation_bytes}});
  nlohmann::ordered_json out{{"layers", rows},
                             {"parameters", t.parameters},
                             {"parameter_bytes", t.parameter_bytes},
                             {"gradient_bytes", t.gradient_bytes},
                             {"flops", t.flops},
                             {"activation_bytes", t.activation_bytes}};
  if (t.arena_bytes)
    out.update({{"arena_bytes", *t.arena_bytes}, {"training_bytes", t.parameter_bytes + t.gradient_bytes + *t.arena_bytes}});
  else
    out.update({{"arena_bytes", nullptr}, {"training_bytes", nullptr}, {"no_training", t.no_training}});
  return out;
}

/// A model cut into stages as costs say, without a device: times are parts of a whole.
struct Cut {
  std::vector<std::string> modules;  // [stage] its first one
  parallel::Partition partition;
  std::vector<std::int64_t> parameter_bytes, bytes_behind;  // [stage]; bytes of a micro-batch that cross to the next one
};

/// @param micro_batch  specs of the task's inputs
Cut cut_of(train::Task& task, const Specs& micro_batch, const parallel::PipelineShape& shape) {
  const distributed::PipelineCosts costs = distributed::pipeline_costs(task, micro_batch, {.shape = shape});
  Cut cut;
  cut.partition = parallel::partition(distributed::partition_problem(costs, {.shape = shape, .memory_bytes = std::int64_t{1} << 60}));
  for (std::size_t s = 0; s < cut.partition.first.size(); ++s) {
    const auto first = static_cast<std::size_t>(cut.partition.first[s]);
    const std::size_t end = s + 1 < cut.partition.first.size() ? static_cast<std::size_t>(cut.partition.first[s + 1]) : costs.units.size();
    cut.modules.push_back(costs.modules[first]);
    cut.bytes_behind.push_back(costs.units[end - 1].boundary_bytes);
    std::int64_t bytes = 0;
    for (std::size_t u = first; u < end; ++u) bytes += costs.units[u].parameter_bytes;
    cut.parameter_bytes.push_back(bytes);
  }
  return cut;
}

nlohmann::ordered_json json_of(const Cut& cut) {
  auto out = nlohmann::ordered_json::array();
  for (std::size_t s = 0; s < cut.modules.size(); ++s)
    out.push_back({{"first_module", cut.modules[s]},
                   {"relative_time", cut.partition.stage_s[s] / cut.partition.slowest_s},
                   {"bytes", cut.partition.stage_bytes[s]},
                   {"parameter_bytes", cut.parameter_bytes[s]},
                   {"bytes_behind", cut.bytes_behind[s]}});
  return out;
}

void print(const Cut& cut, std::int64_t micro_batches) {
  fmt::print("\n{:<6}  {:<24} {:>8} {:>14} {:>10} {:>18}\n", "stage", "first module", "time", "parameters MiB", "MiB", "MiB to the next");
  for (std::size_t s = 0; s < cut.modules.size(); ++s)
    fmt::print("{:<6}  {:<24} {:>7.0f}% {:>14.2f} {:>10.2f} {:>18.2f}\n", s, cut.modules[s].empty() ? "." : cut.modules[s],
               100 * cut.partition.stage_s[s] / cut.partition.slowest_s, mebibytes(cut.parameter_bytes[s]), mebibytes(cut.partition.stage_bytes[s]),
               mebibytes(cut.bytes_behind[s]));
  fmt::print(
      "time: of the slowest stage's, estimated from operations and bytes (train measures it); MiB: weights, gradients, momentum and activations of 1f1b with "
      "{} micro-batches\n",
      micro_batches);
}

}  // namespace

int summary(const Arguments& arguments) {
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("model", po::value<std::string>()->required(), model_help().c_str());
  option("input", po::value<std::string>()->default_value(""), made_up_input_help().c_str());
  option("batch-size", po::value<std::int64_t>()->default_value(1), "samples at a time");
  option("classes", po::value<std::int64_t>()->default_value(1000), "size of the last layer; 2 for texts where it is not given");
  option("pipeline-stages", po::value<std::int64_t>()->default_value(0), "stages of a pipeline, whose cut is shown too: time, memory, bytes across it");
  option("microbatches", po::value<std::int64_t>()->default_value(0),
         "micro-batches that the batch is cut into for it (default: four a stage where the batch allows)");
  option("json", po::bool_switch(), "machine-readable output");
  add_domain_options(options, domains::OptionUse::model);
  add_recompute_option(options);
  const auto v =
      parse("summary", "A table of a model's layers in evaluation, and its memory in training, found without computing anything.", options, arguments);
  const domains::RunOptions of_run = run_options(v);
  const auto batch_size = whole_number(v, "batch-size", 1, 1e6);
  const auto workload = made_up_once(of_run, 1).open();
  const auto model = workload->model({.recompute = recompute_option(of_run)});
  const auto task = workload->task(*model);
  model->eval();
  const Specs batch = workload->batch(batch_size);
  const auto layers = nn::summarise(*model, Specs(batch.begin(), batch.end() - 1));
  const Totals totals = totals_of(*task, layers, batch);
  const std::int64_t stages = whole_number(v, "pipeline-stages", 0, 1000), given = whole_number(v, "microbatches", 0, 1e6);
  if (given && !stages) throw UsageError("--microbatches: it is given without --pipeline-stages; accepted: with it");
  if (given > batch_size) throw UsageError(fmt::format("--microbatches: {} of a batch of {}; accepted: at most one a sample", given, batch_size));
  const std::int64_t micro_batches = given ? given : std::min(4 * stages, batch_size);
  std::optional<Cut> cut;
  if (stages)
    cut = cut_of(*task, workload->batch(std::max<std::int64_t>(1, batch_size / micro_batches)),
                 {.stages = static_cast<int>(stages), .micro_batches = static_cast<int>(micro_batches)});
  if (v["json"].as<bool>()) {
    auto all = json_of(layers, totals);
    if (cut) all["pipeline"] = json_of(*cut);
    fmt::print("{}\n", all.dump(2));
  } else {
    print(layers, totals);
    if (cut) print(*cut, micro_batches);
  }
  return 0;
}

}  // namespace gemel::cli
