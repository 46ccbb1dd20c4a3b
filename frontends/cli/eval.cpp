#include <fmt/format.h>

#include <array>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/cli/command.h"
#include "frontends/cli/loaded_model.h"
#include "frontends/cli/run_log.h"
#include "frontends/cli/train_options.h"

namespace gemel::cli {
namespace {

/// Counts by (label, guess) for binary tasks.
struct Binary {
  std::array<std::array<std::int64_t, 2>, 2> count{};
  double precision() const { return ratio(count[1][1], count[0][1] + count[1][1]); }
  double recall() const { return ratio(count[1][1], count[1][0] + count[1][1]); }
  double f1() const {
    const double sum = precision() + recall();
    return sum > 0 ? 2 * precision() * recall() / sum : 0;
  }
  static double ratio(std::int64_t a, std::int64_t b) { return b ? static_cast<double>(a) / static_cast<double>(b) : 0; }
};

struct Totals {
  double loss = 0;
  std::int64_t correct = 0, samples = 0;
  Binary binary;
};

Totals evaluate(Session& session, nn::Module& model, const datasets::Dataset& data, std::int64_t batch_size, Frontend frontend, const PassNames& passes) {
  const auto forward = [&](const Values& in) -> Values {
    const GradientMode no_gradients(session, GradientMode::Mode::off);
    const Value logits = model(in[0]);
    return {cross_entropy(logits, in[1]), argmax(logits, 1)};
  };
  graph::Compiled compiled(session, forward, passes);
  datasets::LoaderOptions options;
  options.batch_size = batch_size;
  options.shuffle = datasets::Shuffle::off;
  datasets::Loader loader(data, options);
  loader.start(0);
  Totals totals;
  while (auto batch = loader.next()) {
    const Value labels = session.tensor({Shape{batch->size()}, DType::int64}, batch->labels);
    const Values in{session.tensor({batch->shape, DType::float32}, batch->images), labels};
    const Values out = frontend == Frontend::graph ? compiled(in) : forward(in);
    totals.loss += read(out[0])[0] * static_cast<double>(batch->size());
    const auto guesses = read(out[1]), truths = read(labels);
    for (std::size_t i = 0; i < guesses.size(); ++i) {
      totals.correct += guesses[i] == truths[i];
      if (data.classes() == 2) ++totals.binary.count[static_cast<std::size_t>(truths[i])][guesses[i] == 1];
    }
    totals.samples += batch->size();
  }
  return totals;
}

}  // namespace

int eval(const Arguments& arguments) {
  po::options_description options("options", 110);
  add_model_options(options);
  options.add_options()("batch-size", po::value<std::int64_t>()->default_value(64), "samples at a time")
      ("frontend", po::value<std::string>()->default_value("eager"), "eager or graph");
  add_dataset_options(options);
  add_common_options(options);
  const auto v = parse("eval", "Loss and accuracy of a weight file on a data set's validation split (its only one, where it has one).", options, arguments);
  const CommonOptions common = common_options(v);
  const auto frontend = v["frontend"].as<std::string>();
  check_choice("--frontend", frontend, {"eager", "graph"});
  const auto batch_size = v["batch-size"].as<std::int64_t>();
  check_range("--batch-size", static_cast<double>(batch_size), 1, 1e9);
  const auto data = datasets::open_dataset(dataset_options(v, common.seed));
  const datasets::Dataset& split = data.validation ? *data.validation : *data.train;
  const auto device = open_device(common);
  Session session(*device, common.seed);
  const auto model = load_model(v, session, data.train->classes(), split.shape()[0]);
  RunLog log(common.log_dir);
  const Totals t = evaluate(session, *model, split, batch_size, frontend == "graph" ? Frontend::graph : Frontend::eager, common.passes);
  const double n = static_cast<double>(std::max<std::int64_t>(1, t.samples));
  nlohmann::ordered_json result{{"event", "eval"}, {"samples", t.samples}, {"loss", t.loss / n}, {"accuracy", static_cast<double>(t.correct) / n}};
  fmt::print("samples {}\nloss {:.6f}\naccuracy {:.6f}\n", t.samples, t.loss / n, static_cast<double>(t.correct) / n);
  if (split.classes() == 2) {
    fmt::print("precision {:.6f}\nrecall {:.6f}\nf1 {:.6f}\n", t.binary.precision(), t.binary.recall(), t.binary.f1());
    result.update({{"precision", t.binary.precision()}, {"recall", t.binary.recall()}, {"f1", t.binary.f1()}});
  }
  log.event(result);
  return 0;
}

}  // namespace gemel::cli
