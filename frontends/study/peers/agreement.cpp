#include "frontends/study/peers/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <sstream>

#include "datasets/formats/npy.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/study/peers/peer_texts.h"
#include "frontends/study/peers/peers.h"
#include "frontends/study/runner/program_output.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

/// What decides weights, data and losses.
constexpr std::array kDecisive{"model",    "config", "lstm",     "classes", "input",           "batch-size",      "optimizer",        "lr",      "weight-decay",
                               "momentum", "np",     "parallel", "devices", "freeze-norm",     "freeze-backbone", "accumulate",       "sync-bn", "clip-norm",
                               "platform", "device", "threads",  "weights", "label-smoothing", "microbatches",    "pipeline-schedule"};
constexpr int kSteps = 5;
constexpr const char* kReversed = "reversed";
constexpr double kGentle = 0.1;   // of the first loss: what five steps may take of it
constexpr double kSteady = 1e-4;  // how far Gemel's losses may be from its own when the batch is in another order, by which nothing but rounding changes
constexpr int kTenths = 10;       // of the rate, at most, until they are

/// Of them: what one device does not have.
constexpr std::array kOfSeveral{"np", "parallel", "devices", "sync-bn", "microbatches", "pipeline-schedule"};

bool is_training(const Json& spec) { return spec["command"] != "bench infer"; }

bool says_something(const Json& value) { return !value.is_null() && value != "" && value != 0 && value != false; }

/// "3x32x32" as numbers.
std::vector<std::int64_t> extents_of(const std::string& input) {
  std::vector<std::int64_t> out;
  std::istringstream in(input);
  for (std::string word; std::getline(in, word, 'x');) out.push_back(std::strtoll(word.c_str(), nullptr, 10));
  return out;
}

template <class T>
void write_array(const fs::path& file, const Shape& shape, DType type, const std::vector<T>& values) {
  datasets::write_npy(file, Spec{shape, type}, std::as_bytes(std::span(values)));
}

std::vector<double> read_floats(const fs::path& file) {
  const datasets::NpyFile array(file);
  std::vector<float> values(static_cast<std::size_t>(array.shape().elements()));
  array.read(0, std::as_writable_bytes(std::span(values)));
  return {values.begin(), values.end()};
}

/// The largest distance over `scale` of each; not a number where there is one.
template <class Scale>
double distance(const std::vector<double>& a, const std::vector<double>& b, Scale scale) {
  double out = 0;
  for (std::size_t i = 0; i < a.size() && !std::isnan(out); ++i)
    if (const double d = std::abs(a[i] - b[i]) / scale(b[i]); !(d <= out)) out = d;
  return out;
}

/// Of losses: over those that exceed 1.
double distance_of_losses(const std::vector<double>& a, const std::vector<double>& b) {
  return distance(a, b, [](double loss) { return std::max(1.0, std::abs(loss)); });
}

double largest(const std::vector<double>& values) {
  double out = 0;
  for (const double v : values) out = std::max(out, std::abs(v));
  return out > 0 ? out : 1;
}

}  // namespace

/// What reads texts; a peer has none where Gemel cannot read them.
template <class F>
auto Agreement::or_missing(const F& texts) {
  try {
    return texts();
  } catch (const Error& error) {
    throw Failure{"missing", error.what()};
  }
}

Agreement::~Agreement() {
  std::error_code none;
  fs::remove_all(options_.folder / "start", none);
}

void Agreement::probe(const Json& spec) {
  const auto [known, is_new] = probed_.try_emplace(spec["peer"].get<std::string>());
  const fs::path folder = options_.folder / "start";
  fs::create_directories(folder);
  try {
    if (is_new) run_words(peer_words(options_, spec, {}, {}), folder, spec);
  } catch (const Failure& failure) {
    known->second = failure;
  }
  if (!known->second.status.empty()) throw Failure(known->second);
}

ProcessRecord Agreement::check(const Case& c, double timeout_s) {
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_s));
  ProcessRecord out{.status = "ok", .spec = c.spec};
  try {
    probe(c.spec);
    Start& start = start_of(c.spec);
    Case ready = c;
    ready.spec.update(start.spec);
    ready.spec["start"] = start.folder.string();
    const bool trains = c.spec["command"] == "train";
    if (trains && takes_texts(c.spec)) ready.spec["texts"] = texts_to_train(start, c.spec).string();
    out.spec = ready.spec;
    if (const auto found = agreed_.find(c.name); found != agreed_.end()) {
      out.agreement = found->second;
    } else {
      out.agreement = compared(ready, start, out);
      if (out.status == "ok") agreed_[c.name] = out.agreement;
    }
  } catch (const Failure& failure) {
    out.status = failure.status;
    out.reason = failure.reason;
  }
  return out;
}

/// @param spec  by which it is known whose program it is
void Agreement::run_words(const std::vector<std::string>& words, const fs::path& folder, const Json& spec) const {
  ProcessRecord run{.spec = spec};
  const double timeout_s = std::max(0.01, std::chrono::duration<double>(deadline_ - Clock::now()).count());
  const ChildResult ended =
      study::run({.words = words, .output = folder / "stdout", .errors = folder / "stderr", .timeout_s = timeout_s, .tick = [this](auto...) {
                    options_.stop_if_interrupted();
                  }});
  take_status(run, ended, folder / "stderr", true);
  if (run.status != "ok") throw Failure{run.status, run.reason};
}

/// Runs a command of Gemel's on the model of a start. @return its last loss records, of training
Json Agreement::gemel(const Start& start, const std::string& command, Json spec) const {
  for (const char* key : {"model", "config", "lstm", "platform", "device", "threads"})
    if (start.spec.contains(key)) spec[key] = start.spec[key];
  const fs::path log = start.folder / "log", file = start.folder / "spec.json";
  fs::remove_all(log);
  spec["command"] = command;
  if (command == "train") spec["log-dir"] = log.string();
  write_file_atomically(file, [&](FileWriter& out) { out.write(spec.dump(1) + "\n"); });
  try {
    run_words({options_.program.string(), spec.contains("np") ? "launch" : command, "--spec", file.string()}, start.folder, spec);
  } catch (Failure& failure) {
    failure.reason = "what it starts from: " + failure.reason;
    throw;
  }
  Json losses = Json::array();
  std::istringstream in(text_of(log / "run.jsonl"));
  for (std::string line; std::getline(in, line);)
    if (const Json event = Json::parse(line, nullptr, false); event.is_object() && event.value("event", "") == "step") losses.push_back(event["loss"]);
  return losses;
}

Agreement::Start& Agreement::start_of(const Json& spec) {
  Json decisive;
  const auto take = [&](const auto& keys, const Json& from) {
    for (const char* key : keys)
      if (from.contains(key) && says_something(from[key])) decisive[key] = from[key];
  };
  take(kDecisive, spec);
  if (takes_texts(spec)) take(kTextKeys, or_missing([&] { return with_text_keys(spec); }));
  if (decisive.value("np", 1) == 1) decisive.erase("np");
  const std::string name = decisive.dump();
  const auto known = starts_.find(name);
  Start made{.folder = options_.folder / "start" / fmt::format("{}", starts_.size()), .spec = decisive, .outputs = {}, .losses = {}};
  Start& start = known != starts_.end() ? known->second : made;
  if (known == starts_.end()) {
    fs::remove_all(start.folder);
    fs::create_directories(start.folder);
    write_batch(start);
    Json once = keys_of_batch(start);
    once.update({{"steps", 1}, {"lr", 0}, {"optimizer", "sgd"}, {"freeze-norm", true}, {"save", (start.folder / "weights.safetensors").string()}});
    if (start.spec.contains("weights")) once["weights"] = start.spec["weights"];
    gemel(start, "train", once);
    require_processor(start);
    find_outputs(start);
  }
  if (is_training(spec) && start.losses.empty()) find_losses(start);
  return known != starts_.end() ? start : starts_.emplace(name, std::move(made)).first->second;
}

/// Peers compute on the processor: beside another device of Gemel's they would compare devices.
void Agreement::require_processor(const Start& start) {
  const Json summary = Json::parse(text_of(start.folder / "log" / "summary.json"), nullptr, false);
  if (const std::string type = device_type(summary); type != "cpu")
    throw Failure{"missing", fmt::format("peers compute on the processor, and Gemel's device is {} ({}); accepted: --device with a CPU",
                                         type.empty() ? "unknown" : "a " + type,
                                         summary.is_object() && summary.contains("device") ? summary["device"].value("name", "") : "")};
}

/// By which `train` reads the batch.
Json Agreement::keys_of_batch(const Start& start) {
  Json out{{"classes", start.spec["classes"]}, {"batch-size", start.spec["batch-size"]}};
  if (!takes_texts(start.spec)) {
    out.update({{"dataset", "npy"}, {"data", start.folder.string()}});
    return out;
  }
  for (const char* key : kTextKeys)
    if (start.spec.contains(key)) out[key] = start.spec[key];
  out["limit"] = start.spec["batch-size"];
  return out;
}

void Agreement::write_batch(const Start& start) const {
  if (takes_texts(start.spec)) return or_missing([&] { write_texts(start.spec, start.spec["batch-size"], start.folder); });
  const auto n = start.spec["batch-size"].get<std::int64_t>(), classes = start.spec.value("classes", std::int64_t{0});
  const std::vector<std::int64_t> extents = extents_of(start.spec.value("input", ""));
  if (extents.size() != 3 || classes < 1)
    throw Failure{
        "missing",
        fmt::format("{} with input '{}' and {} classes has no peer; accepted: a model of pictures or of texts by class, an input such as 3x32x32, classes",
                    start.spec.value("model", ""), start.spec.value("input", ""), classes)};
  const Shape shape{n, extents[0], extents[1], extents[2]};
  std::mt19937_64 random(options_.seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<std::int64_t> uniform(0, classes - 1);
  std::vector<float> pictures(static_cast<std::size_t>(shape.elements()));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(n));
  std::ranges::generate(pictures, [&] { return normal(random); });
  std::ranges::generate(labels, [&] { return uniform(random); });
  const auto write = [&](const fs::path& folder) {
    fs::create_directories(folder);
    write_array(folder / "images.npy", shape, DType::float32, pictures);
    write_array(folder / "labels.npy", Shape{n}, DType::int64, labels);
  };
  write(start.folder);
  std::ranges::reverse(labels);
  std::ranges::reverse(pictures);  // and its pixels, which are to be in order
  const auto picture = std::ssize(pictures) / n;
  for (auto it = pictures.begin(); it != pictures.end(); it += picture) std::reverse(it, it + picture);
  write(start.folder / kReversed);
}

/// The folder of all texts of a case that trains on them.
std::filesystem::path Agreement::texts_to_train(const Start& start, const Json& spec) {
  const auto limit = spec.value("limit", std::int64_t{0});
  const fs::path out = start.folder / fmt::format("texts-{}", limit);
  if (!is_there(out)) or_missing([&] { write_texts(spec, limit, out); });
  return out;
}

void Agreement::find_outputs(Start& start) const {
  const fs::path out = start.folder / "outputs.npy";
  gemel(start, "infer",
        {{"weights", (start.folder / "weights.safetensors").string()},
         {"input", (start.folder / (takes_texts(start.spec) ? "ids.npy" : "images.npy")).string()},
         {"output", out.string()},
         {"batch-size", start.spec["batch-size"]}});
  start.outputs = read_floats(out);
}

void Agreement::find_losses(Start& start) const {
  Json spec{{"weights", (start.folder / "weights.safetensors").string()}, {"dropout", 0.0}, {"steps", kSteps}};
  for (const auto& [key, value] : start.spec.items())
    if (key != "input" && key != "weights") spec[key] = value;
  spec.update(keys_of_batch(start));
  const bool has_texts = takes_texts(start.spec);
  enum class Order { given, another };
  const auto losses_in = [&](Order order) {
    spec["shuffle"] = has_texts && order == Order::another ? "on" : "off";
    if (!has_texts) spec["data"] = (order == Order::given ? start.folder : start.folder / kReversed).string();
    return gemel(start, "train", spec).get<std::vector<double>>();
  };
  const auto are_steady = [&](const std::vector<double>& losses) {
    const std::vector<double> again = losses_in(Order::another);
    return again.size() == kSteps && losses.size() == kSteps && distance_of_losses(again, losses) <= kSteady;
  };
  // Rounding is judged on one device, as a job of several processes takes long to start, and in a pipeline: of few values batch normalisation magnifies it.
  const Json whole = spec;
  const bool has_parts = says_something(whole.value("microbatches", Json()));
  start.rate = start.spec["lr"];
  for (int tenths = 0; tenths < kTenths; ++tenths, start.rate /= 10) {
    spec = whole;
    for (const char* key : kOfSeveral) spec.erase(key);
    spec["lr"] = start.rate;
    std::vector<double> losses = losses_in(Order::given);
    // On one batch a step that goes not too far makes the loss smaller.
    if (losses.size() != kSteps || !std::ranges::is_sorted(losses, std::greater()) || losses.front() - losses.back() > kGentle * losses.front()) continue;
    if (!are_steady(losses)) continue;
    if (whole.contains("parallel")) {
      spec = whole;
      spec["lr"] = start.rate;
      losses = losses_in(Order::given);
      if (has_parts && !are_steady(losses)) continue;
    }
    start.losses = losses;
    return;
  }
  throw Failure{"failed", "what it starts from: at no rate are Gemel's own losses free of magnified rounding, so that nothing can be compared"};
}

/// Runs the peer's program, and sets the run's status where it does not agree. @return what was found
Json Agreement::compared(const Case& ready, Start& start, ProcessRecord& run) const {
  Json spec = ready.spec;
  if (is_training(spec)) spec["lr"] = start.rate;
  spec["dropout"] = 0;
  const fs::path file = start.folder / "check.json", out = start.folder / "checked.json";
  write_file_atomically(file, [&](FileWriter& writer) { writer.write(spec.dump(1) + "\n"); });
  fs::remove(out);
  std::vector<std::string> words = peer_words(options_, spec, file, out);
  words.emplace_back("--check");
  run.command = fmt::format("{}", fmt::join(words, " "));
  run_words(words, start.folder, spec);
  const Json made = Json::parse(text_of(out), nullptr, false);  // which takes no NaN
  std::vector<double> outputs, losses;
  try {
    outputs = made.at("outputs").get<std::vector<double>>();
    losses = made.value("losses", Json::array()).get<std::vector<double>>();
  } catch (const Json::exception&) {
    throw Failure{"failed", "it disagrees with Gemel: it left no outputs that are numbers"};
  }
  const std::vector<double> none, &expected = is_training(spec) ? start.losses : none;
  if (outputs.size() != start.outputs.size() || losses.size() != expected.size())
    throw Failure{"failed", fmt::format("it disagrees with Gemel: {} outputs and {} losses; accepted: {} and {}", outputs.size(), losses.size(),
                                        start.outputs.size(), expected.size())};
  const double scale = largest(start.outputs);
  Json found{{"outputs", distance(outputs, start.outputs, [&](double) { return scale; })}};
  bool agrees = found["outputs"] <= kAgreement;
  if (!expected.empty()) {
    const double change = expected.front() - expected.back();
    found["losses"] = distance_of_losses(losses, expected);
    found["change"] = change;
    found["lr"] = start.rate;
    agrees = agrees && found["losses"] <= kAgreement && distance(losses, expected, [](double) { return 1.0; }) <= 0.1 * change;
  }
  if (agrees) return found;
  run.status = "failed";
  run.reason = fmt::format(
      "it disagrees with Gemel: outputs by {:.2g} of the largest{}; accepted: {}", found["outputs"].get<double>(),
      expected.empty() ? ""
                       : fmt::format(", losses by {:.2g}, which five steps change by {:.2g}", found["losses"].get<double>(), found["change"].get<double>()),
      kAgreement);
  return found;
}

}  // namespace gemel::study
