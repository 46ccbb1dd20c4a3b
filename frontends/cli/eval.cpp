#include <fmt/format.h>

#include "frontends/cli/command.h"
#include "frontends/cli/dataset_options.h"
#include "frontends/cli/evaluation.h"
#include "frontends/cli/model_options.h"
#include "frontends/cli/run_scope.h"

namespace gemel::cli {
namespace {

void report(RunLog& log, const Totals& t, bool binary) {
  nlohmann::ordered_json result{{"event", "eval"}, {"samples", t.samples}, {"loss", t.mean_loss()}, {"accuracy", t.accuracy()}};
  fmt::print("samples {}\nloss {:.6f}\naccuracy {:.6f}\n", t.samples, t.mean_loss(), t.accuracy());
  if (binary) {
    fmt::print("precision {:.6f}\nrecall {:.6f}\nf1 {:.6f}\n", t.precision(), t.recall(), t.f1());
    result.update({{"precision", t.precision()}, {"recall", t.recall()}, {"f1", t.f1()}});
  }
  log.event(result);
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
    Training training(run.session(), *model, nullptr, frontend, run.options().passes, 0);
    const Totals totals = evaluate(training, split, batch_size, [&run] { run.check_interrupt(); });
    report(run.log(), totals, split.classes() == 2);
    run.summary().update({{"samples", totals.samples}, {"loss", totals.mean_loss()}, {"accuracy", totals.accuracy()}});
  });
}

}  // namespace gemel::cli
