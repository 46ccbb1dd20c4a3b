#include "frontends/study/runner/case_process.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/numbers.h"
#include "engine/base/resource_limits.h"
#include "engine/base/text/shell_quote.h"
#include "frontends/study/peers/peers.h"
#include "frontends/study/runner/case_spec.h"
#include "frontends/study/runner/child_process.h"
#include "frontends/study/runner/process_meter.h"
#include "frontends/study/runner/program_output.h"
#include "frontends/study/statistics/averages.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

/// Of a result: the Unix seconds between which steps were measured.
constexpr const char* kMeasured = "measured_unix_s";

/// The numbers of a JSON object, and those of its objects as "last_epoch.seconds".
void take_numbers(const Json& from, const std::string& prefix, Json& out) {
  for (const auto& [key, value] : from.items()) {
    if (value.is_number()) out[prefix + key] = value;
    if (value.is_object() && key != "spec" && key != "device") take_numbers(value, prefix + key + ".", out);
  }
}

/// What is measured of runs that tell the times of their steps (`bench`, `train`): ms, the median time of a step; of that, a sample's, and an epoch's of so
/// many samples, where they are known.
void add_times(ProcessRecord& run, double epoch_samples) {
  auto samples = run.samples_ms.get<std::vector<double>>();
  if (run.spec["command"] == "train" && samples.size() > 1) samples.erase(samples.begin());  // it builds kernels
  if (samples.empty()) return;
  const double ms = median(samples);
  run.metrics["ms"] = ms;
  if (run.metrics.contains("exposed_comm_ms")) run.metrics["exposed_share"] = run.metrics["exposed_comm_ms"].get<double>() / ms;
  const Json batch_size = run.metrics.value("batch_size", run.spec.value("batch-size", Json()));
  if (!batch_size.is_number()) return;
  const auto batch = batch_size.get<double>();
  run.metrics["ms_per_sample"] = ms / batch;
  run.metrics["samples_per_s"] = 1000 * batch / ms;
  if (epoch_samples > 0) run.metrics["epoch_s"] = 1e-3 * ms * std::ceil(epoch_samples / batch);
}

/// Computes on one core, beside whatever else runs there, until it is destroyed.
std::jthread busy_thread(int core) {
  return std::jthread([core](const std::stop_token& stop) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(core), &set);
    sched_setaffinity(0, sizeof set, &set);  // of this thread alone
    while (!stop.stop_requested()) continue;
  });
}

/// One process: how it is started, and what it leaves.
class Process {
 public:
  Process(const Case& c, const Study& study, const StudyOptions& options, int repeat) : options_(options), folder_(options.folder / kLastRun) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    spec_ = with_data(c.spec, study, options, missing_);
    asked_cores_ = spec_.value(kCores, 0);
    processors_ = allowed_cores().processors;
    if (asked_cores_ > std::ssize(processors_)) processors_.clear();
    if (asked_cores_ > 0) processors_.resize(std::min(at(asked_cores_), processors_.size()));
    busy_cores_ = std::min(at(spec_.value(kBusyCores, 0)), processors_.size());
    epoch_samples_ = spec_.value(kEpochSamples, 0.0);
    for (const char* key : kOfRunner) spec_.erase(key);
    if (!options.platform.empty()) spec_["platform"] = options.platform;
    if (!options.device.empty() && !spec_.contains("device") && !spec_.contains("devices")) spec_["device"] = options.device;
    is_bench_ = spec_["command"].get<std::string>().starts_with("bench");
    if (!is_bench_ && !spec_.contains("seed")) spec_["seed"] = static_cast<std::int64_t>(options.seed) + repeat;
    command_ = command_line();
    spec_[is_bench_ ? "json" : "log-dir"] = (folder_ / (is_bench_ ? "bench.json" : "log")).string();
    write_file_atomically(folder_ / "spec.json", [&](FileWriter& out) { out.write(spec_.dump(1) + "\n"); });
    words_ = {options.program.string()};
    if (c.is_of_peer()) {
      const fs::path out = folder_ / (is_bench_ ? "bench.json" : "log/summary.json");
      fs::create_directories(out.parent_path());
      words_ = peer_words(options, spec_, folder_ / "spec.json", out);
      command_ = fmt::format("{}", fmt::join(words_, " "));
      return;
    }
    std::ranges::copy(run_words(spec_, (folder_ / "spec.json").string()), std::back_inserter(words_));
  }

  ProcessRecord run(double timeout_s) {
    ProcessRecord out{.spec = spec_, .command = command_, .started = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))};
    if (processors_.empty()) missing_ = fmt::format("{} cores are asked for, and this process may use {}", asked_cores_, allowed_cores().count());
    if (!missing_.empty()) {
      out.status = "missing";
      out.reason = missing_;
      return out;
    }
    std::vector<std::jthread> busy;
    for (std::size_t i = 0; i < busy_cores_; ++i) busy.push_back(busy_thread(processors_[processors_.size() - 1 - i]));
    ProcessMeter meter(static_cast<int>(std::ssize(processors_)));
    const ChildResult ended = study::run({.words = words_,
                                          .output = folder_ / "stdout",
                                          .errors = folder_ / "stderr",
                                          .timeout_s = timeout_s,
                                          .processors = processors_,
                                          .tick = [&](pid_t process) {
                                            options_.stop_if_interrupted();
                                            meter.tick(process);
                                          }});
    out.seconds = ended.seconds;
    out.metrics["process_seconds"] = ended.seconds;
    out.metrics["processor_seconds"] = ended.processor_seconds;
    is_bench_ ? take_bench(out, ended) : take_summary(out, ended);
    add_times(out, epoch_samples_);
    add_usage(out, meter);
    return out;
  }

 private:
  /// The run for a shell, without the files that the study reads of it and removes.
  std::string command_line() const {
    std::vector<std::string> words{options_.program.string()};
    if (asked_cores_ > 0 && !processors_.empty()) words.insert(words.begin(), {"taskset", "-c", fmt::format("{}", fmt::join(processors_, ","))});
    std::ranges::copy(run_words(spec_, spec_.dump()), std::back_inserter(words));
    for (std::string& word : words) word = shell_word(word);
    return fmt::format("{}", fmt::join(words, " "));
  }
  void take_bench(ProcessRecord& out, const ChildResult& ended) {
    const Json all = Json::parse(text_of(folder_ / "bench.json"), nullptr, false);
    const bool has_case = all.is_object() && all.contains("benchmarks") && !all["benchmarks"].empty();
    const Json measured = has_case ? all["benchmarks"][0] : Json::object();
    if (measured.contains("error_occurred")) {
      out.status = "does-not-fit";
      out.reason = measured.value("error_message", "");
      return;
    }
    take_status(out, ended, folder_ / "stderr", has_case);
    if (out.status != "ok") return;
    if (all["benchmarks"].size() != 1) {
      out.status = "failed";
      out.reason = fmt::format("its spec means {} cases; accepted: one, so name its model, frontend, input and batch-size", all["benchmarks"].size());
      return;
    }
    take_numbers(measured, "", out.metrics);
    if (measured.contains("peak_bytes"))
      out.metrics["stage_peak_bytes"] = std::ranges::max(measured.value("stage_peak_bytes", std::vector{measured["peak_bytes"].get<std::int64_t>()}));
    take_span(measured);
    out.samples_ms = measured["samples_ms"];
    for (const char* key : {"device", "driver", "version", "commit", "threads"})
      if (all["context"].contains(key)) out.machine[key] = all["context"][key];
  }
  void take_summary(ProcessRecord& out, const ChildResult& ended) {
    const Json summary = Json::parse(text_of(folder_ / "log" / "summary.json"), nullptr, false);
    take_status(out, ended, folder_ / "stderr", summary.is_object());
    if (out.status != "ok") return;
    take_numbers(summary, "", out.metrics);
    take_span(summary);
    take_epochs(out);
    if (summary.contains("samples_ms")) out.samples_ms = summary["samples_ms"];
    for (const char* key : {"device", "version", "threads"})
      if (summary.contains(key)) out.machine[key] = summary[key];
  }
  void take_epochs(ProcessRecord& out) const {
    double seconds = 0, samples = 0;
    std::vector<double> staleness;
    std::istringstream lines(text_of(folder_ / "log" / "run.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      Json epoch = Json::parse(line, nullptr, false);
      if (epoch.is_object() && epoch.value("staleness", Json()).is_number()) staleness.push_back(epoch["staleness"].get<double>());
      if (!epoch.is_object() || epoch.value("event", "") != "epoch") continue;
      seconds += epoch.value("seconds", 0.0);
      samples += epoch.value("seconds", 0.0) * epoch.value("samples_per_s", 0.0);
      epoch["seconds"] = seconds;
      epoch["samples"] = std::round(samples);
      out.epochs.push_back(std::move(epoch));
      out.metrics["training_s"] = seconds;
    }
    if (!staleness.empty()) out.metrics.update({{"staleness", mean(staleness)}, {"largest_staleness", range(staleness).high}});
  }
  void take_span(const Json& from) {
    if (from.contains(kMeasured)) measured_ = Span{from[kMeasured][0].get<double>(), from[kMeasured][1].get<double>()};
  }
  /// While steps were measured, not while the program started.
  void add_usage(ProcessRecord& out, const ProcessMeter& meter) const {
    out.usage = meter.lines();
    if (!measured_) return;
    out.metrics.update(meter.means(*measured_));
    if (!out.metrics.contains("utilisation"))
      for (const char* metric : {"utilisation", "watts", "joules_per_sample"}) out.unmeasured[metric] = "all steps were measured within 0.2 s: too short";
    if (out.metrics.contains("watts") && out.metrics.contains("ms_per_sample"))
      out.metrics["joules_per_sample"] = 1e-3 * out.metrics["ms_per_sample"].get<double>() * out.metrics["watts"].get<double>();
    if (out.status == "ok") out.machine["power"] = meter.power().parts();
    std::string why = meter.power().why_none();
    if (why.empty() && device_type(out.machine) == "cpu") why = meter.power().why_no_packages();  // what a card uses meanwhile says nothing of the run
    if (why.empty()) return;
    for (const char* metric : {"watts", "joules_per_sample"}) {
      out.metrics.erase(metric);
      out.unmeasured[metric] = why;
    }
  }
  const StudyOptions& options_;
  fs::path folder_;
  Json spec_;
  double epoch_samples_ = 0;
  int asked_cores_ = 0;
  std::vector<int> processors_;  // that it may run on; empty: there are not as many
  std::size_t busy_cores_ = 0;   // the last of them, with another program on each
  std::string missing_;          // why it cannot run here
  std::optional<Span> measured_;
  bool is_bench_ = false;
  std::vector<std::string> words_;
  std::string command_;  // of Gemel: as a user may repeat it
};

}  // namespace

ProcessRecord run_once(const CaseRun& what, const Study& study, const StudyOptions& options) {
  return Process(what.c, study, options, what.repeat).run(what.timeout_s);
}

}  // namespace gemel::study
