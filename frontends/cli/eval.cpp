// gemel eval: loss and accuracy of saved weights on a data set.
#include <fmt/format.h>

#include "datasets/loader.h"
#include "frontends/cli/command.h"
#include "frontends/cli/dataset_options.h"
#include "frontends/cli/job.h"
#include "frontends/cli/joined_trace.h"
#include "frontends/cli/model_options.h"
#include "frontends/cli/run_scope.h"
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

struct Order {
  std::string model;
  std::int64_t batch_size;
  Frontend frontend;
  datasets::DatasetOptions dataset;
};

/// Of all ranks' shards; all stop where one is interrupted.
train::Sums evaluated(RunScope& run, train::Step& step, datasets::Loader& loader, train::Ranks& ranks) {
  train::Notice mine;
  try {
    mine.sums = train::evaluate(step, loader, [&run] { run.begin_batch(); });
  } catch (const Interrupted&) {
    mine.interrupted = true;
  }
  ranks.announce(std::move(mine));
  const train::Notice all = ranks.agreed();
  if (all.interrupted) throw Interrupted();
  return *all.sums;
}

void evaluate_split(RunScope& run, Job& job, const Order& order, const po::variables_map& v) {
  const auto data = datasets::open_dataset(order.dataset);
  const datasets::Dataset& split = data.validation ? *data.validation : *data.train;
  if (job.communication()) {
    std::vector<distributed::Setting> settings = job.options().settings(!run.options().profile.empty());
    const std::vector<distributed::Setting> own{{"model", order.model}, {"samples", std::to_string(split.size())}, {"batch size", std::to_string(order.batch_size)}};
    settings.insert(settings.end(), own.begin(), own.end());
    distributed::require_same(*job.communication(), settings);
  }
  run.open_device();
  const auto model = load_model(v, run.session(), split.classes(), split.shape()[0]);
  run.log_start(order.model, *model);
  train::Ranks alone;
  std::optional<distributed::DataParallel> shared;
  if (job.communication()) shared.emplace(run.session(), *job.communication());
  train::Ranks& ranks = shared ? *shared : alone;
  train::ClassificationTask task(*model, split.classes());
  train::Step step(run.session(), task, nullptr, {.frontend = order.frontend, .passes = run.options().passes, .ranks = &ranks});
  datasets::LoaderOptions in_order = datasets::in_file_order(order.batch_size);
  in_order.rank = job.rank();
  in_order.ranks = job.size();
  datasets::Loader loader(split, in_order);
  const train::Sums sums = evaluated(run, step, loader, ranks);
  join_traces(run, job);
  if (job.rank() == 0) run.summary().update(report(run.log(), task, sums));
}

}  // namespace

int eval(const Arguments& arguments) {
  po::options_description options("options", 110);
  add_loaded_model_options(options);
  options.add_options()("batch-size", po::value<std::int64_t>()->default_value(64), "samples at a time");
  add_dataset_options(options);
  add_parallel_options(options);
  add_frontend_option(options);
  add_common_options(options);
  const auto v = parse("eval", "Loss and accuracy of a weight file on a data set's validation split (its only one, where it has one).", options, arguments);
  const std::string name = model_name(v);
  const auto batch_size = whole_number(v, "batch-size", 1, 1e9);
  const CommonOptions common = common_options(v);
  const Frontend frontend = frontend_option(v);
  const datasets::DatasetOptions dataset = dataset_options(v, common.seed);
  const ParallelOptions parallel = parallel_options(v);
  return run_job(parallel, common.device, [&](Job& job) {
    RunScope run(of_rank(common, job), "eval", arguments);
    return run.carry_out([&] { evaluate_split(run, job, {name, batch_size, frontend, dataset}, v); });
  });
}

}  // namespace gemel::cli
