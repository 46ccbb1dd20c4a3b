// gemel eval: loss and accuracy of saved weights on a data set.
#include <fmt/format.h>

#include "datasets/loader.h"
#include "frontends/cli/command.h"
#include "frontends/cli/dataset_options.h"
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

}  // namespace

int eval(const Arguments& arguments) {
  po::options_description options("options", 110);
  add_loaded_model_options(options);
  options.add_options()("batch-size", po::value<std::int64_t>()->default_value(64), "samples at a time");
  add_dataset_options(options);
  add_frontend_option(options);
  add_common_options(options);
  const auto v = parse("eval", "Loss and accuracy of a weight file on a data set's validation split (its only one, where it has one).", options, arguments);
  const std::string name = model_name(v);
  const auto batch_size = whole_number(v, "batch-size", 1, 1e9);
  const CommonOptions common = common_options(v);
  const Frontend frontend = frontend_option(v);
  const datasets::DatasetOptions dataset = dataset_options(v, common.seed);
  RunScope run(common, "eval", arguments);
  return run.carry_out([&] {
    const auto data = datasets::open_dataset(dataset);
    const datasets::Dataset& split = data.validation ? *data.validation : *data.train;
    run.open_device();
    const auto model = load_model(v, run.session(), split.classes(), split.shape()[0]);
    run.log_start(name, *model);
    train::ClassificationTask task(*model, split.classes());
    train::Step step(run.session(), task, nullptr, {frontend, run.options().passes});
    datasets::Loader loader(split, datasets::in_file_order(batch_size));
    run.summary().update(report(run.log(), task, train::evaluate(step, loader, [&run] { run.begin_batch(); })));
  });
}

}  // namespace gemel::cli
