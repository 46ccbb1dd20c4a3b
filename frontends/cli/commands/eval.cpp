// gemel eval: loss and accuracy of saved weights on a data set.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "datasets/loading/data_loader.h"
#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/base/numbers.h"
#include "engine/files/weights.h"
#include "frontends/cli/command.h"
#include "frontends/cli/commands/specs.h"
#include "frontends/cli/job/job.h"
#include "frontends/cli/options/ablation_options.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/options/train_identity.h"
#include "frontends/cli/run/joined_trace.h"
#include "frontends/cli/run/run_scope.h"
#include "frontends/cli/strategies/strategy.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/train/evaluation.h"

namespace gemel::cli {
namespace {

/// @return what is told, for summary.json
nlohmann::ordered_json report(train::RunLog& log, const train::Task& task, const train::Sums& sums) {
  nlohmann::ordered_json result{{"samples", sums.samples}, {"loss", sums.mean_loss()}};
  fmt::print("samples {}\nloss {:.6f}\n", sums.samples, sums.mean_loss());
  for (const train::Metric& m : task.metrics(sums)) {
    fmt::print("{} {:.6f}\n", m.name, m.value);
    result[m.name] = m.value;
  }
  nlohmann::ordered_json line{{"event", "eval"}};
  line.update(result);
  log.event(line);
  return result;
}

struct EvalOrder {
  Json spec{};
  std::string model{};
  domains::OpenWorkload open{};
  std::int64_t batch_size = 0;
  Frontend frontend = Frontend::eager;
  std::string weights{};
};

/// As a hash.
std::string contents_of(const std::string& weights) {
  std::uint64_t hash = 0;
  const WeightsFile file(weights);
  for (const NamedTensor& t : file.tensors()) hash = hash_of(t.data, hash);
  return fmt::format("{:016x}", hash);
}

/// Of all ranks' shards. All stop behind the same batch where one is interrupted: the stages of a pipeline wait for each other.
train::Sums evaluated(RunScope& run, train::Stepper& step, datasets::DataLoader& loader, train::Ranks& ranks) {
  const train::Sums mine = train::evaluate(step, loader, [&] {
    ranks.announce({0, InterruptGuard::interrupted(), {}});
    run.begin_batch(ranks.agreed().interrupted);
  });
  return ranks.merge(mine);
}

/// That all ranks evaluate the same.
void check_job(Job& job, const EvalOrder& order, const datasets::Dataset& split) {
  if (!job.communication()) return;
  std::vector<distributed::Setting> settings = settings_of(order.spec);
  const std::vector<distributed::Setting> own{
      {"samples", std::to_string(split.size())}, {"contents", first_and_last(split)}, {"contents of weights", contents_of(order.weights)}};
  settings.insert(settings.end(), own.begin(), own.end());
  distributed::require_same(*job.communication(), settings);
  job.strategy().check(Purpose::evaluate, order.batch_size, job.size());
}

void evaluate_split(RunScope& run, Job& job, const EvalOrder& order) {
  const auto work = order.open();
  const datasets::Dataset& split = work->validation_data() ? *work->validation_data() : work->train_data();
  check_job(job, order, split);
  run.open_device(job);
  const auto model = work->model();
  model->eval();
  const auto task = work->task(*model);
  datasets::DataLoaderOptions in_order = datasets::in_file_order(order.batch_size);
  const Strategy& strategy = job.strategy();
  in_order.rank = strategy.copy(job.rank(), job.size());
  in_order.ranks = strategy.copies(job.size());
  datasets::DataLoader loader(split, in_order);
  const std::int64_t samples = std::min(order.batch_size, split.size());
  ModelUse use{.purpose = Purpose::evaluate,
               .batch = work->batch(samples),
               .shard = work->batch(ceil_div(samples, std::int64_t{in_order.ranks})),
               .micro_batches = strategy.micro_batches(samples, job.size(), 1),
               .frontend = order.frontend,
               .passes = run.options().passes,
               .keeps_spans = !run.options().profile.empty(),
               .memory_bytes = run.memory_limit()};
  const auto measured = strategy.measured(run.session(), job, *task, use);
  use.micro_batches = measured->micro_batches(samples, job.size(), 1);
  const auto with = measured->model(run.session(), job, *task, std::move(use));
  with->build([&](nn::Extent extent) { say_prefix(nn::load_weights(*model, run.session(), order.weights, nn::Mismatch::refuse, extent)); });
  run.log_start(order.model, *model);
  const train::Sums sums = evaluated(run, with->stepper(), loader, with->ranks());
  if (!std::isfinite(sums.loss))
    throw Error(fmt::format("eval: the loss is {} with the weights of {}; accepted: weights and samples of finite numbers", sums.mean_loss(), order.weights));
  add_communication(run, with->take_spans());
  join_traces(run, job);
  if (job.rank() == 0) run.summary().update(report(run.log(), *task, sums));
}

po::options_description eval_options() {
  po::options_description options("options", 110);
  add_loaded_model_options(options);
  options.add_options()("batch-size", po::value<std::int64_t>()->default_value(64), "samples at a time");
  add_dataset_options(options);
  add_parallel_options(options);
  add_style_options(options, Purpose::evaluate);
  add_frontend_option(options);
  add_common_options(options);
  add_ablation_options(options);
  add_spec_options(options);
  return options;
}

struct EvalOptions {
  EvalOrder order;
  CommonOptions common;
  ParallelOptions parallel;
};

EvalOptions parse_eval_options(const Arguments& arguments) {
  const po::options_description options = eval_options();
  const auto v = parse("eval", "Loss and accuracy of a weight file on a data set's validation split (its only one, where it has one).", options,
                       with_spec("eval", options, arguments));
  EvalOptions o{.order = {.batch_size = whole_number(v, "batch-size", 1, 1e9)}, .common = common_options(v)};
  o.order.frontend = frontend_option(v);
  const domains::RunOptions of_run = run_options(v);
  o.order.open = domains::read(of_run);
  o.order.model = of_run.text("model");
  o.order.weights = v["weights"].as<std::string>();
  o.parallel = parallel_options(v);
  o.order.spec = resolved(spec_of("eval", options, v), of_run);
  print_if_asked(v, o.order.spec);
  return o;
}

}  // namespace

Json eval_spec(const Arguments& arguments) { return parse_eval_options(arguments).order.spec; }

int eval(const Arguments& arguments) {
  require_launched(arguments);
  const EvalOptions o = parse_eval_options(arguments);
  return run_job(o.parallel, o.common.device, [&](Job& job) {
    RunScope run(of_rank(o.common, job), "eval", arguments, {{"spec", o.order.spec}});
    return run.carry_out([&] { evaluate_split(run, job, o.order); });
  });
}

}  // namespace gemel::cli
