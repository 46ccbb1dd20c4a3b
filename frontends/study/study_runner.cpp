#include "frontends/study/study_runner.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/record_file.h"
#include "engine/base/numbers.h"
#include "engine/base/resource_limits.h"
#include "frontends/study/child_process.h"
#include "frontends/study/process_meter.h"
#include "frontends/study/statistics/bootstrap.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char *kRuns = "runs.jsonl", *kUsage = "usage.jsonl";
/// Keys of a case's spec that the runner itself reads.
constexpr const char *kCores = "cores", *kEpochSamples = "epoch-samples";
/// Of a result: the Unix seconds between which steps were measured.
constexpr const char* kMeasured = "measured_unix_s";

/// Empty where the file is not there.
std::string text_of(const fs::path& file) { return is_there(file) ? std::string(as_text(read_whole(file))) : ""; }

/// The last line that says something: an error's, in a program that writes one.
std::string last_line(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) out = line;
  return out;
}

/// The numbers of a JSON object, and those of its objects as "last_epoch.seconds".
void take_numbers(const Json& from, const std::string& prefix, Json& out) {
  for (const auto& [key, value] : from.items()) {
    if (value.is_number()) out[prefix + key] = value;
    if (value.is_object() && key != "spec" && key != "device") take_numbers(value, prefix + key + ".", out);
  }
}

/// What is measured by every kind of run: ms, the median time of a step; of that, a sample's, and an epoch's of so many samples, where they are known.
void add_times(ProcessRecord& run, double epoch_samples) {
  auto samples = run.samples_ms.get<std::vector<double>>();
  if (run.spec["command"] == "train" && samples.size() > 1) samples.erase(samples.begin());  // it builds kernels
  if (samples.empty()) return;
  const double ms = median(samples);
  run.metrics["ms"] = ms;
  const Json batch_size = run.metrics.value("batch_size", run.spec.value("batch-size", Json()));
  if (!batch_size.is_number()) return;
  const auto batch = batch_size.get<double>();
  run.metrics["ms_per_sample"] = ms / batch;
  run.metrics["samples_per_s"] = 1000 * batch / ms;
  if (epoch_samples > 0) run.metrics["epoch_s"] = 1e-3 * ms * std::ceil(epoch_samples / batch);
}

std::vector<std::string> words_of(const Json& spec) {
  std::vector<std::string> out;
  std::istringstream command(spec["command"].get<std::string>());
  for (std::string word; command >> word;) out.push_back(word);
  return out;
}

/// The number of cores that a case is given by the key `cores` of its spec; 0: all.
int asked_cores(const Case& c) {
  if (!c.spec.contains(kCores)) return 0;
  const Json& cores = c.spec[kCores];
  if (!cores.is_number_integer() || cores < 1)
    throw UsageError(fmt::format("study: case {}: cores is {}; accepted: a whole number from 1", c.name, cores.dump()));
  return cores;
}

constexpr std::string_view kData = "{data}/";

/// The spec with the folder of the data sets in it. @param missing  why one of them cannot be read, where that is so
Json with_data(Json spec, const Study& study, const RunOptions& options, std::string& missing) {
  for (auto& [key, value] : spec.items()) {
    if (!value.is_string() || !value.get_ref<const std::string&>().starts_with(kData)) continue;
    const std::string rest = value.get_ref<const std::string&>().substr(kData.size()), name = rest.substr(0, rest.find('/'));
    const fs::path path = options.data / rest;
    if (!is_there(path)) {
      const auto source = std::ranges::find(study.data, name, &DataSource::name);
      missing = fmt::format("{} is not there{}; accepted: --data with a folder that has it", path.string(),
                            source == study.data.end() ? "" : fmt::format(": {}", source->from));
    }
    value = path.string();
  }
  return spec;
}

/// One process: how it is started, and what it leaves.
class Process {
 public:
  Process(const Case& c, const Study& study, const RunOptions& options, int repeat) : options_(options), folder_(options.folder / "last-run") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    spec_ = with_data(c.spec, study, options, missing_);
    asked_cores_ = asked_cores(c);
    processors_ = allowed_cores().processors;
    if (asked_cores_ > std::ssize(processors_)) processors_.clear();
    if (asked_cores_ > 0) processors_.resize(std::min(at(asked_cores_), processors_.size()));
    epoch_samples_ = spec_.value(kEpochSamples, 0.0);
    for (const char* key : {kCores, kEpochSamples}) spec_.erase(key);
    if (!options.platform.empty()) spec_["platform"] = options.platform;
    if (!options.device.empty() && !spec_.contains("device") && !spec_.contains("devices")) spec_["device"] = options.device;
    is_bench_ = spec_["command"].get<std::string>().starts_with("bench");
    if (!is_bench_ && !spec_.contains("seed")) spec_["seed"] = static_cast<std::int64_t>(options.seed) + repeat;
    spec_[is_bench_ ? "json" : "log-dir"] = (folder_ / (is_bench_ ? "bench.json" : "log")).string();
    write_file_atomically(folder_ / "spec.json", [&](FileWriter& out) { out.write(spec_.dump(1) + "\n"); });
    words_ = {options.program.string()};
    if (spec_.contains("np")) {
      words_.emplace_back("launch");
    } else {
      std::ranges::copy(words_of(spec_), std::back_inserter(words_));
    }
    words_.insert(words_.end(), {"--spec", (folder_ / "spec.json").string()});
  }

  ProcessRecord run(double timeout_s) {
    ProcessRecord out{
        .spec = spec_, .command = fmt::format("{}", fmt::join(words_, " ")), .started = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))};
    if (processors_.empty()) missing_ = fmt::format("{} cores are asked for, and this process may use {}", asked_cores_, allowed_cores().count());
    if (!missing_.empty()) {
      out.status = "missing";
      out.reason = missing_;
      return out;
    }
    ProcessMeter meter(static_cast<int>(std::ssize(processors_)));
    const ChildResult ended = study::run({.words = words_,
                                          .output = folder_ / "stdout",
                                          .errors = folder_ / "stderr",
                                          .timeout_s = timeout_s,
                                          .processors = processors_,
                                          .tick = [&](pid_t process) {
                                            if (options_.interrupted()) throw Interrupted();
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

  struct Interrupted {};

 private:
  void take_bench(ProcessRecord& out, const ChildResult& ended) {
    const Json all = Json::parse(text_of(folder_ / "bench.json"), nullptr, false);
    const bool has_case = all.is_object() && all.contains("benchmarks") && !all["benchmarks"].empty();
    const Json measured = has_case ? all["benchmarks"][0] : Json::object();
    if (measured.contains("error_occurred")) {
      out.status = "does-not-fit";
      out.reason = measured.value("error_message", "");
      return;
    }
    take_status(out, ended, has_case);
    if (out.status != "ok") return;
    if (all["benchmarks"].size() != 1) {
      out.status = "failed";
      out.reason = fmt::format("its spec means {} cases; accepted: one, so name its model, frontend, input and batch-size", all["benchmarks"].size());
      return;
    }
    take_numbers(measured, "", out.metrics);
    take_span(measured);
    out.samples_ms = measured["samples_ms"];
    for (const char* key : {"device", "driver", "version", "commit"})
      if (all["context"].contains(key)) out.machine[key] = all["context"][key];
  }
  void take_summary(ProcessRecord& out, const ChildResult& ended) {
    const Json summary = Json::parse(text_of(folder_ / "log" / "summary.json"), nullptr, false);
    take_status(out, ended, summary.is_object());
    if (out.status != "ok") return;
    take_numbers(summary, "", out.metrics);
    take_span(summary);
    take_epochs(out);
    if (summary.contains("samples_ms")) out.samples_ms = summary["samples_ms"];
    if (summary.contains("device")) out.machine["device"] = summary["device"];
  }
  void take_epochs(ProcessRecord& out) const {
    double seconds = 0, samples = 0;
    std::istringstream lines(text_of(folder_ / "log" / "run.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      Json epoch = Json::parse(line, nullptr, false);
      if (!epoch.is_object() || epoch.value("event", "") != "epoch") continue;
      seconds += epoch.value("seconds", 0.0);
      samples += epoch.value("seconds", 0.0) * epoch.value("samples_per_s", 0.0);
      epoch["seconds"] = seconds;
      epoch["samples"] = std::round(samples);
      out.epochs.push_back(std::move(epoch));
    }
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
    if (const std::string& why = meter.why_no_power(); !why.empty()) out.unmeasured["watts"] = out.unmeasured["joules_per_sample"] = why;
  }
  void take_status(ProcessRecord& out, const ChildResult& ended, bool has_result) const {
    const std::string said = last_line(text_of(folder_ / "stderr"));
    if (ended.timed_out) {
      out.status = "timeout";
      out.reason = fmt::format("it ran for more than {:.0f} s", ended.seconds);
    } else if (ended.status != 0 || !has_result) {
      const bool has_no_room = said.find("memory") != std::string::npos && said.find("accepted:") != std::string::npos;
      // What is asked for is not there: a file, which the run could not open, or a device, by which a spec that is right is refused.
      const bool is_missing = ended.status == 2 || said.find("cannot open") != std::string::npos || said.find("does not exist") != std::string::npos;
      out.status = has_no_room ? "does-not-fit" : is_missing ? "missing" : "failed";
      out.reason = said.empty() ? fmt::format("it ended with status {}", ended.status) : said;
    } else {
      out.status = "ok";
    }
  }

  const RunOptions& options_;
  fs::path folder_;
  Json spec_;
  double epoch_samples_ = 0;
  int asked_cores_ = 0;
  std::vector<int> processors_;  // that it may run on; empty: there are not as many
  std::string missing_;          // why it cannot run here
  std::optional<Span> measured_;
  bool is_bench_ = false;
  std::vector<std::string> words_;
};

/// Refuses a case whose spec its command does not take, before anything runs.
void check(const Case& c, const RunOptions& options) {
  const fs::path folder = options.folder / "last-run";
  fs::create_directories(folder);
  Json spec = spec_of_run(c);
  asked_cores(c);
  if (const Json samples = c.spec.value(kEpochSamples, Json(1)); !samples.is_number() || samples <= 0)
    throw UsageError(fmt::format("study: case {}: {} is {}; accepted: a number above 0", c.name, kEpochSamples, samples.dump()));
  std::vector<std::string> words{options.program.string()};
  std::ranges::copy(words_of(spec), std::back_inserter(words));
  words.insert(words.end(), {"--spec", spec.dump(), "--print-spec"});
  if (const ChildResult ended = run({.words = words, .output = folder / "stdout", .errors = folder / "stderr", .timeout_s = 60}); ended.status != 0)
    throw UsageError(fmt::format("study: case {}: {}", c.name, last_line(text_of(folder / "stderr"))));
  const Json whole = Json::parse(text_of(folder / "stdout"), nullptr, false);
  for (const auto& [key, value] : whole.items())
    if (value.is_array() && value.size() > 1 && key != "env" && key != "variant")
      throw UsageError(fmt::format("study: case {}: {} is {}; accepted: one value, in the spec or on an axis", c.name, key, value.dump()));
}

/// Refuses a study none of whose cases has its data.
void check_data(const Study& study, const RunOptions& options) {
  std::string first;
  for (const Case& c : study.cases) {
    std::string missing;
    with_data(c.spec, study, options, missing);
    if (missing.empty()) return;
    if (first.empty()) first = missing;
  }
  throw DataError(fmt::format("study: {}", first));
}

/// What is known of the cases so far: which go on, how long each takes, and whether that is enough.
class Progress {
 public:
  Progress(const Study& study, const std::vector<ProcessRecord>& before) : study_(study), metric_(study.tables.empty() ? "ms" : study.tables[0].metric) {
    for (const ProcessRecord& run : before) add(run);
  }
  void add(const ProcessRecord& run) {
    Known& known = known_[run.name];
    known.repeats = std::max(known.repeats, run.repeat + 1);
    known.seconds = run.seconds;
    if (run.status != "ok") known.is_gap = true;
    if (run.metrics.contains(metric_)) known.values.push_back(run.metrics[metric_].get<double>());
    ++order_;
  }
  bool goes_on(const Case& c, int repeat) const {
    const auto it = known_.find(c.name);
    return it == known_.end() || (!it->second.is_gap && it->second.repeats <= repeat);
  }
  /// As it took when it ran last; else as the mean of the others did.
  double seconds(const Case& c) const {
    const auto it = known_.find(c.name);
    if (it != known_.end() && it->second.repeats > 0) return it->second.seconds;
    double sum = 0;
    for (const auto& [name, known] : known_) sum += known.seconds;
    return known_.empty() ? 0 : sum / static_cast<double>(known_.size());
  }
  double seconds_of_block() const {
    double sum = 0;
    for (const Case& c : study_.cases) {
      const auto it = known_.find(c.name);
      if (it == known_.end() || !it->second.is_gap) sum += seconds(c);
    }
    return sum;
  }
  /// Whether every median is known as well as the study asks.
  bool is_enough() const {
    return std::ranges::all_of(known_, [&](const auto& one) {
      const Known& known = one.second;
      if (known.is_gap) return true;
      if (std::ssize(known.values) < study_.least_repeats) return false;
      const Interval interval = median_interval(known.values, {.resamples = 999});
      return interval.high - interval.low <= study_.narrow * median(known.values);
    });
  }
  std::int64_t order() const { return order_; }

 private:
  struct Known {
    int repeats = 0;
    double seconds = 0;
    bool is_gap = false;
    std::vector<double> values;
  };
  const Study& study_;
  std::string metric_;  // by whose intervals it is decided whether more blocks are needed
  std::map<std::string, Known> known_;
  std::int64_t order_ = 0;
};

std::vector<const Case*> shuffled(const Study& study, std::uint64_t seed, int repeat) {
  std::vector<const Case*> out;
  for (const Case& c : study.cases) out.push_back(&c);
  std::mt19937_64 random(seed * 1'000'003 + static_cast<std::uint64_t>(repeat));
  std::ranges::shuffle(out, random);
  return out;
}

std::string left(double seconds) { return seconds < 90 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60); }

/// study.json, by which a folder is known; and the folder's earlier runs, where they are of the same study.
std::vector<ProcessRecord> begin(const Study& study, const RunOptions& options) {
  fs::create_directories(options.folder);
  const fs::path file = options.folder / "study.json";
  Json about{{"name", study.name},           {"title", study.title},     {"seed", options.seed},
             {"platform", options.platform}, {"device", options.device}, {"extent", static_cast<int>(study.extent)},
             {"study", study.text}};
  for (const Case& c : study.cases) about["cases"].push_back({{"name", c.name}, {"spec", c.spec}});
  if (fs::exists(file)) {
    if (!options.resume)
      throw UsageError(fmt::format("study: {} holds a study's results; accepted: --resume to go on with it, or another --out", options.folder.string()));
    const Json before = Json::parse(text_of(file), nullptr, false);
    for (const char* key : {"cases", "seed", "platform", "device"})
      if (!before.is_object() || before.value(key, Json()) != about[key])
        throw UsageError(
            fmt::format("study: {} holds another study's results (its {} differ); accepted: the same study, extent, seed and device, or another --out",
                        options.folder.string(), key));
    return read_runs(options.folder);
  }
  write_file_atomically(file, [&](FileWriter& out) { out.write(about.dump(1) + "\n"); });
  return {};
}

}  // namespace

namespace {

/// Gives each run its lines of usage.jsonl; one that was cut off is left out, as is one of a run that is not on record.
void add_usage(const fs::path& folder, std::vector<ProcessRecord>& runs) {
  std::istringstream in(text_of(folder / kUsage));
  for (std::string line; std::getline(in, line);) {
    Json usage = Json::parse(line, nullptr, false);
    if (!usage.is_object() || !usage.value("order", Json()).is_number_integer()) continue;
    const auto run = std::ranges::find(runs, usage["order"].get<std::int64_t>(), &ProcessRecord::order);
    if (run != runs.end()) run->usage.push_back(std::move(usage));
  }
}

}  // namespace

Json spec_of_run(const Case& c) {
  Json out = c.spec;
  for (const char* key : {"np", kCores, kEpochSamples}) out.erase(key);
  return out;
}

Json json_of(const ProcessRecord& run) {
  return {{"order", run.order},     {"case", run.name},
          {"peer", "gemel"},        {"mode", "default"},
          {"repeat", run.repeat},   {"status", run.status},
          {"reason", run.reason},   {"command", run.command},
          {"spec", run.spec},       {"samples_ms", run.samples_ms},
          {"metrics", run.metrics}, {"unmeasured", run.unmeasured},
          {"epochs", run.epochs},   {"machine", run.machine},
          {"started", run.started}, {"seconds", run.seconds}};
}

ProcessRecord run_of(const Json& json) {
  return {.order = json.at("order"),
          .name = json.at("case"),
          .repeat = json.at("repeat"),
          .status = json.at("status"),
          .reason = json.at("reason"),
          .metrics = json.at("metrics"),
          .samples_ms = json.at("samples_ms"),
          .unmeasured = json.value("unmeasured", Json::object()),
          .epochs = json.value("epochs", Json::array()),
          .machine = json.at("machine"),
          .spec = json.at("spec"),
          .command = json.at("command"),
          .started = json.at("started"),
          .seconds = json.at("seconds")};
}

std::vector<ProcessRecord> read_runs(const fs::path& folder) {
  std::vector<ProcessRecord> out;
  std::istringstream in(text_of(folder / kRuns));
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // no end of line: the process that wrote it was killed
    try {
      out.push_back(run_of(Json::parse(line)));
    } catch (const Json::exception&) {
      throw DataError(fmt::format("study: {}: line {} is no run", (folder / kRuns).string(), out.size() + 1));
    }
  }
  add_usage(folder, out);
  return out;
}

namespace {

std::string usage_line(const ProcessRecord& run, const Json& usage) {
  Json line{{"order", run.order}, {"case", run.name}};
  line.update(usage);
  return line.dump() + "\n";
}

/// Blocks of all cases, until enough is known or the budget ends.
class Schedule {
 public:
  Schedule(const Study& study, const RunOptions& options, Progress& progress)
      : study_(study), options_(options), progress_(progress), record_(appended(kRuns)), usage_(appended(kUsage)) {}

  void run() {
    for (int block = 0; block < study_.most_repeats && !budget_has_ended_; ++block) {
      run_block(block);
      if (block + 1 >= study_.least_repeats && progress_.is_enough()) return;
    }
  }

 private:
  double left_of_budget() const { return options_.budget_s - std::chrono::duration<double>(Clock::now() - begin_).count(); }
  void run_block(int block) {
    std::size_t done = 0;
    for (const Case* c : shuffled(study_, options_.seed, block)) {
      ++done;
      if (!progress_.goes_on(*c, block)) continue;
      const bool has_budget = options_.budget_s > 0;
      if (has_budget && left_of_budget() < progress_.seconds(*c)) {
        budget_has_ended_ = true;
        continue;  // a shorter case may fit
      }
      options_.say(fmt::format(
          "block {}, case {} of {}: {}; {}", block + 1, done, study_.cases.size(), c->name,
          has_budget ? fmt::format("at most {} left", left(left_of_budget())) : fmt::format("a block takes {}", left(progress_.seconds_of_block()))));
      run_case(*c, block, has_budget);
    }
  }
  void run_case(const Case& c, int block, bool has_budget) {
    const double rest = has_budget ? std::max(left_of_budget(), 1.0) : study_.timeout_s;
    ProcessRecord run;
    try {
      run = Process(c, study_, options_, block).run(std::min(study_.timeout_s, rest));
    } catch (const Process::Interrupted&) {
      throw DataError(fmt::format("study: interrupted; go on with --resume --out {}", options_.folder.string()));
    }
    if (run.status == "timeout" && rest < study_.timeout_s) {  // the budget's end, not the case's fault
      budget_has_ended_ = true;
      return;
    }
    if (run.status != "ok") options_.say(fmt::format("  {}: {}", run.status, run.reason));
    run.order = progress_.order() + 1;
    run.name = c.name;
    run.repeat = block;
    record_.append(json_of(run).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    for (const Json& line : run.usage) usage_.append(usage_line(run, line));
    progress_.add(run);
  }

  RecordFile appended(const char* name) const {
    const fs::path file = options_.folder / name;
    return RecordFile(open_regular("study", file, O_WRONLY | O_CREAT | O_APPEND), file);
  }

  const Study& study_;
  const RunOptions& options_;
  Progress& progress_;
  RecordFile record_, usage_;
  Clock::time_point begin_ = Clock::now();
  bool budget_has_ended_ = false;
};

}  // namespace

void run_study(const Study& study, const RunOptions& options) {
  const bool goes_on = is_there(options.folder / "study.json");
  if (!goes_on) {
    for (const Case& c : study.cases) check(c, options);
    check_data(study, options);
  }
  const std::vector<ProcessRecord> before = begin(study, options);
  Progress progress(study, before);
  std::string runs, usage;  // without a line that a killed process left unfinished
  for (const ProcessRecord& run : before) {
    runs += json_of(run).dump() + "\n";
    for (const Json& line : run.usage) usage += usage_line(run, line);
  }
  write_file_atomically(options.folder / kRuns, [&](FileWriter& out) { out.write(runs); });
  write_file_atomically(options.folder / kUsage, [&](FileWriter& out) { out.write(usage); });
  Schedule(study, options, progress).run();
  fs::remove_all(options.folder / "last-run");
}

}  // namespace gemel::study
