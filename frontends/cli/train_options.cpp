#include "frontends/cli/train_options.h"

#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "frontends/models/models.h"

namespace gemel::cli {
namespace {

std::vector<std::string> strings(const auto& names) { return {names.begin(), names.end()}; }

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

po::options_description described() {
  po::options_description options("options", 110);
  options.add_options()
      ("model", po::value<std::string>()->default_value("resnet18"), ("model: " + joined(strings(models::names()))).c_str())
      ("classes", po::value<std::int64_t>()->default_value(0), "size of the last layer; 0: the data set's classes")
      ("dropout", po::value<double>(), "rate of every dropout of the model")
      ("frontend", po::value<std::string>()->default_value("eager"), "eager or graph");
  add_dataset_options(options);
  options.add_options()
      ("epochs", po::value<std::int64_t>(), "passes over the data (default 1)")
      ("steps", po::value<std::int64_t>(), "updates, over as many epochs as it takes; not with --epochs")
      ("batch-size", po::value<std::int64_t>()->default_value(64), "samples of a step")
      ("optimizer", po::value<std::string>()->default_value("adam"), ("optimizer: " + joined(strings(optim::names()))).c_str())
      ("lr", po::value<double>()->default_value(1e-3, "0.001"), "learning rate")
      ("weight-decay", po::value<double>(), "weight decay (default 0.01 for adamw, else 0)")
      ("momentum", po::value<double>(), "momentum (default 0.9 for momentum and nesterov)")
      ("clip-norm", po::value<double>()->default_value(0, "0"), "largest norm of all gradients together; 0: no limit")
      ("lr-schedule", po::value<std::string>()->default_value("constant"), "constant, step (a tenth every 30 epochs) or cosine (to 0 over the run)")
      ("shuffle", po::value<std::string>()->default_value("on"), "on or off")
      ("augment", po::value<std::string>()->default_value("none"), "none, or standard: pad 4, crop, flip")
      ("weights", po::value<std::string>()->default_value(""), "safetensors file to start from")
      ("freeze-backbone", po::bool_switch(), "train the last layer only")
      ("save", po::value<std::string>()->default_value(""), "write the trained weights to this safetensors file")
      ("checkpoint-dir", po::value<std::string>()->default_value(""), "folder for checkpoints: at each epoch's end and on interrupt")
      ("checkpoint-every", po::value<std::int64_t>()->default_value(0), "and every so many steps")
      ("resume", po::value<std::string>()->default_value(""), "auto, or a checkpoint file to go on from")
      ("eval-every", po::value<std::int64_t>()->default_value(1), "epochs from one validation to the next; 0: never")
      ("detect-anomaly", po::bool_switch(), "look at every result, and name the first operator that makes a NaN (slow)");
  add_common_options(options);
  return options;
}

std::int64_t positive(const po::variables_map& v, const char* name, std::int64_t least = 1) {
  const auto value = v[name].as<std::int64_t>();
  check_range(std::string("--") + name, static_cast<double>(value), static_cast<double>(least), 1e12);
  return value;
}

void read_length(const po::variables_map& v, TrainOptions& o) {
  if (v.count("epochs") && v.count("steps")) throw UsageError("train: --epochs and --steps are both given; accepted: one of them");
  if (v.count("epochs")) o.epochs = positive(v, "epochs");
  if (v.count("steps")) o.steps = positive(v, "steps");
}

void read_optimizer(const po::variables_map& v, TrainOptions& o) {
  o.optimizer_name = v["optimizer"].as<std::string>();
  check_choice("--optimizer", o.optimizer_name, strings(optim::names()));
  o.rate = v["lr"].as<double>();
  check_range("--lr", o.rate, 0, 1e30);
  o.clip_norm = v["clip-norm"].as<double>();
  check_range("--clip-norm", o.clip_norm, 0, 1e30);
  for (const char* name : {"weight-decay", "momentum"})
    if (v.count(name)) {
      const double value = v[name].as<double>();
      check_range(std::string("--") + name, value, 0, std::string_view(name) == "momentum" ? 1 : 1e6);
      (std::string_view(name) == "momentum" ? o.optimizer.momentum : o.optimizer.weight_decay) = value;
    }
  const auto schedule = v["lr-schedule"].as<std::string>();
  check_choice("--lr-schedule", schedule, strings(optim::schedule_names()));
  o.schedule = optim::parse_schedule(schedule);
}

}  // namespace

void add_dataset_options(po::options_description& options) {
  options.add_options()
      ("dataset", po::value<std::string>()->default_value("synthetic"), ("data set: " + joined(strings(datasets::dataset_names()))).c_str())
      ("data", po::value<std::string>()->default_value(""), "its folder, or for cifar10 the official .tar.gz")
      ("input", po::value<std::string>()->default_value(""), "CxHxW of its pictures, such as 3x32x32")
      ("normalize", po::value<std::string>()->default_value("none"), "none, or standard: by CIFAR-10's mean and deviation")
      ("limit", po::value<std::int64_t>()->default_value(0), "use only the first so many samples of each split; 0: all");
}

datasets::DatasetOptions dataset_options(const po::variables_map& v, std::uint64_t seed) {
  datasets::DatasetOptions o;
  o.name = v["dataset"].as<std::string>();
  check_choice("--dataset", o.name, strings(datasets::dataset_names()));
  o.data = v["data"].as<std::string>();
  if (const auto input = v["input"].as<std::string>(); !input.empty()) o.input = Shape(parse_extents("--input", input, 3));
  const auto normalize = v["normalize"].as<std::string>();
  check_choice("--normalize", normalize, {"none", "standard"});
  o.normalize = normalize == "standard" ? datasets::Normalize::standard : datasets::Normalize::none;
  o.limit = positive(v, "limit", 0);
  o.seed = seed;
  return o;
}

TrainOptions parse_train_options(const std::vector<std::string>& arguments) {
  const auto v = parse("train", "Trains a model and reports loss and accuracy.", described(), arguments);
  TrainOptions o;
  o.common = common_options(v);
  o.dataset = dataset_options(v, o.common.seed);
  o.model = v["model"].as<std::string>();
  check_choice("--model", o.model, strings(models::names()));
  o.classes = positive(v, "classes", 0);
  if (v.count("dropout")) {
    o.dropout = v["dropout"].as<double>();
    check_range("--dropout", *o.dropout, 0, 1);
  }
  const auto frontend = v["frontend"].as<std::string>();
  check_choice("--frontend", frontend, {"eager", "graph"});
  o.frontend = frontend == "graph" ? Frontend::graph : Frontend::eager;
  read_length(v, o);
  read_optimizer(v, o);
  o.batch_size = positive(v, "batch-size");
  o.checkpoint_every = positive(v, "checkpoint-every", 0);
  o.eval_every = positive(v, "eval-every", 0);
  const auto shuffle = v["shuffle"].as<std::string>(), augment = v["augment"].as<std::string>();
  check_choice("--shuffle", shuffle, {"on", "off"});
  check_choice("--augment", augment, {"none", "standard"});
  o.shuffle = shuffle == "on" ? datasets::Shuffle::on : datasets::Shuffle::off;
  o.augment = augment == "standard" ? datasets::Augment::standard : datasets::Augment::none;
  o.weights = v["weights"].as<std::string>();
  o.save = v["save"].as<std::string>();
  o.checkpoint_dir = v["checkpoint-dir"].as<std::string>();
  o.resume = v["resume"].as<std::string>();
  o.freeze_backbone = v["freeze-backbone"].as<bool>();
  o.detect_anomaly = v["detect-anomaly"].as<bool>();
  if ((o.resume == "auto" || o.checkpoint_every > 0) && o.checkpoint_dir.empty())
    throw UsageError(std::string("train: ") + (o.resume == "auto" ? "--resume auto" : "--checkpoint-every") + " needs --checkpoint-dir");
  return o;
}

}  // namespace gemel::cli
