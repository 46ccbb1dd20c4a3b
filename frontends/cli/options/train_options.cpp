#include "frontends/cli/options/train_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "frontends/cli/options/ablation_options.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/options/optimizer_options.h"

namespace gemel::cli {
namespace {

constexpr double kMany = 1e12;  // steps or epochs

std::vector<std::string> strings(const auto& names) { return {names.begin(), names.end()}; }

}  // namespace

po::options_description train_options() {
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("model", po::value<std::string>()->default_value("resnet18"), model_help().c_str());
  option("classes", po::value<std::int64_t>()->default_value(0), "size of the last layer; 0: the data set's classes");
  option("dropout", po::value<double>(), "rate of every dropout of the model; 0: no stochastic depth either");
  option("label-smoothing", po::value<double>()->default_value(0, "0"),
         "share of the uniform distribution in what a class or a translation's token is judged by, 0 to 1");
  add_dataset_options(options);
  option("epochs", po::value<std::int64_t>(), "passes over the data (default 1)");
  option("steps", po::value<std::int64_t>(), "updates, over as many epochs as it takes; not with --epochs");
  option("batch-size", po::value<std::int64_t>()->default_value(64), "samples of a step");
  option("accumulate", po::value<std::int64_t>()->default_value(1), "micro-batches of a step, whose gradients are added before its update");
  option("workers", po::value<std::int64_t>()->default_value(1), "threads that make batches ahead; 0: none, the training waits for each");
  add_optimizer_options(options, "adam", 1e-3);
  option("clip-norm", po::value<double>()->default_value(0, "0"), "largest norm of all gradients together; 0: no limit");
  option("lr-schedule", po::value<std::string>()->default_value("constant"), "constant, step (a tenth every 30 epochs), cosine or linear (to 0 over the run)");
  option("warmup", po::value<std::string>()->default_value("0"),
         "with linear: steps in which the rate climbs from 0, or with a point, as 0.1, that share of the run");
  option("shuffle", po::value<std::string>()->default_value("on"), "on or off");
  option("augment", po::value<std::string>(),
         "none, or standard: pictures are padded by 4, cropped, flipped; items that a user has not met are drawn anew in each epoch. Default: standard of "
         "ratings, else none");
  option("weights", po::value<std::string>()->default_value(""), "safetensors file to start from, or the index or folder of its shards");
  option("freeze-backbone", po::bool_switch(), "train the last layer only");
  option("freeze-norm", po::bool_switch(), "normalisation uses running statistics in training too");
  option(
      "sparse-embeddings", po::bool_switch(),
      "updates move the rows of embeddings that a step meets and no others, and these do not decay; not of tables that a head shares. With sgd, adam, adamw");
  option("save", po::value<std::string>()->default_value(""), "write the trained weights to this safetensors file");
  option("checkpoint-dir", po::value<std::string>()->default_value(""), "folder for checkpoints: at each epoch's end and on interrupt");
  option("checkpoint-every", po::value<std::int64_t>()->default_value(0), "and every so many steps");
  option("resume", po::value<std::string>()->default_value(""), "auto, or a checkpoint file to go on from");
  option("eval-every", po::value<std::int64_t>()->default_value(1), "epochs from one validation to the next; 0: never");
  option("detect-anomaly", po::bool_switch(), "look at every result, and name the first operator that makes a NaN (slow)");
  add_recompute_option(options);
  add_parallel_options(options);
  add_gradient_options(options);
  add_style_options(options, Purpose::train);
  add_balance_option(options);
  add_frontend_option(options);
  add_common_options(options);
  add_ablation_options(options);
  add_spec_options(options);
  return options;
}

namespace {

void read_length(const po::variables_map& v, TrainOptions& o) {
  if (v.count("epochs") && v.count("steps")) throw UsageError("train: --epochs and --steps are both given; accepted: one of them");
  if (v.count("epochs")) o.epochs = whole_number(v, "epochs", 1, kMany);
  if (v.count("steps")) o.steps = whole_number(v, "steps", 1, kMany);
}

/// "100" steps, or "0.1" of a run.
optim::Warmup warmup_of(const std::string& text) {
  optim::Warmup out;
  const bool is_share = text.find('.') != std::string::npos;
  const char* const end = text.data() + text.size();
  const auto read = is_share ? std::from_chars(text.data(), end, out.share) : std::from_chars(text.data(), end, out.steps);
  if (read.ec != std::errc() || read.ptr != end || out.steps < 0 || !(out.share >= 0 && out.share <= 1))
    throw UsageError(fmt::format("--warmup: '{}' is given; accepted: a number of steps, or a share of the run with a point, 0.0 to 1.0", text));
  return out;
}

void read_optimizer(const po::variables_map& v, TrainOptions& o) {
  o.optimizer = optimizer_options(v);
  o.clip_norm = v["clip-norm"].as<double>();
  check_range("--clip-norm", o.clip_norm, 0, 1e30);
  if (o.sparse_embeddings && !o.optimizer.make()->updates_rows())
    throw UsageError(fmt::format("--sparse-embeddings: --optimizer {} with momentum {} is given; accepted: sgd without momentum, adam or adamw",
                                 o.optimizer.name, optim::with_defaults(o.optimizer.name, o.optimizer.settings).momentum.value_or(0)));
  const auto schedule = v["lr-schedule"].as<std::string>();
  check_choice("--lr-schedule", schedule, strings(optim::schedule_names()));
  o.schedule = optim::parse_schedule(schedule);
  if (!v["warmup"].defaulted() && o.schedule != optim::Schedule::linear)
    throw UsageError(fmt::format("--warmup: it is given with --lr-schedule {}; accepted: with linear", schedule));
  o.warmup = warmup_of(v["warmup"].as<std::string>());
}

void read_batches(const po::variables_map& v, TrainOptions& o) {
  o.batch_size = whole_number(v, "batch-size", 1, 1e9);
  o.accumulate = whole_number(v, "accumulate", 1, 1e9);
  if (o.accumulate > o.batch_size)
    throw UsageError(fmt::format("--accumulate: {} micro-batches of a --batch-size of {}; accepted: at most one a sample", o.accumulate, o.batch_size));
  o.workers = whole_number(v, "workers", 0, 256);
  const std::string shuffle = v["shuffle"].as<std::string>(),
                    augment = v.count("augment") ? v["augment"].as<std::string>() : domains::of_model(run_options(v)).augmentation;
  check_choice("--shuffle", shuffle, {"on", "off"});
  check_choice("--augment", augment, {"none", "standard"});
  o.shuffle = shuffle == "on" ? datasets::Shuffle::on : datasets::Shuffle::off;
  o.augment = augment == "standard" ? datasets::Augment::standard : datasets::Augment::none;
}

void read_model(const po::variables_map& v, TrainOptions& o) {
  const domains::RunOptions options = run_options(v);
  o.open = domains::read(options);
  o.model = options.text("model");
  o.recompute = recompute_option(options);
  o.weights = v["weights"].as<std::string>();
  o.save = v["save"].as<std::string>();
  o.freeze_backbone = v["freeze-backbone"].as<bool>();
  o.freeze_norm = v["freeze-norm"].as<bool>();
  o.sparse_embeddings = v["sparse-embeddings"].as<bool>();
  if (domains::label_smoothing(options) > 0 && !domains::of_model(options).smooths_labels)
    throw UsageError(fmt::format("--label-smoothing: it is given with --model {}; accepted: with models of classes, and those that translate", o.model));
  if (!v.count("dropout")) return;
  o.dropout = v["dropout"].as<double>();
  check_range("--dropout", *o.dropout, 0, 1);
}

void read_checkpoints(const po::variables_map& v, TrainOptions& o) {
  o.checkpoint_every = whole_number(v, "checkpoint-every", 0, kMany);
  o.checkpoint_dir = v["checkpoint-dir"].as<std::string>();
  o.resume = v["resume"].as<std::string>();
  if ((o.resume == "auto" || o.checkpoint_every > 0) && o.checkpoint_dir.empty())
    throw UsageError(std::string("train: ") + (o.resume == "auto" ? "--resume auto" : "--checkpoint-every") + " needs --checkpoint-dir");
}

/// The spec in which nothing is left to a default that depends on something else.
Json resolved_run(Json spec, const TrainOptions& o, const domains::RunOptions& options) {
  spec["epochs"] = o.steps ? Json() : Json(o.epochs);
  spec["steps"] = o.steps ? Json(o.steps) : Json();
  if (std::ranges::count(domains::of_model(options).options, &domains::kAugment))
    spec["augment"] = o.augment == datasets::Augment::standard ? "standard" : "none";
  return resolved(resolved(std::move(spec), options), o.optimizer);
}

}  // namespace

TrainOptions parse_train_options(const std::vector<std::string>& arguments) {
  const po::options_description options = train_options();
  const auto v = parse("train", "Trains a model and reports loss and accuracy.", options, with_spec("train", options, arguments));
  TrainOptions o;
  o.common = common_options(v);
  o.parallel = parallel_options(v);
  o.frontend = frontend_option(v);
  read_model(v, o);
  o.by_length = run_options(v).on("length-buckets");
  read_length(v, o);
  read_optimizer(v, o);
  read_batches(v, o);
  read_checkpoints(v, o);
  o.eval_every = whole_number(v, "eval-every", 0, kMany);
  o.detect_anomaly = v["detect-anomaly"].as<bool>();
  o.spec = resolved_run(spec_of("train", options, v), o, run_options(v));
  print_if_asked(v, o.spec);
  return o;
}

}  // namespace gemel::cli
