#include "frontends/study/study_runner.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/record_file.h"
#include "frontends/study/agreement.h"
#include "frontends/study/program_output.h"
#include "frontends/study/statistics/bootstrap.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kRuns = "runs.jsonl";

/// The numbers of a JSON object, and those of its objects as "last_epoch.seconds".
void take_numbers(const Json& from, const std::string& prefix, Json& out) {
  for (const auto& [key, value] : from.items()) {
    if (value.is_number()) out[prefix + key] = value;
    if (value.is_object() && key != "spec" && key != "device") take_numbers(value, prefix + key + ".", out);
  }
}

/// What is measured by every kind of run: ms, the median time of a step; of that, a sample's.
void add_times(ProcessRecord& run) {
  const auto samples = run.samples_ms.get<std::vector<double>>();
  if (samples.empty()) return;
  const double ms = median(samples);
  run.metrics["ms"] = ms;
  const Json batch_size = run.metrics.value("batch_size", run.spec.value("batch-size", Json()));
  if (!batch_size.is_number()) return;
  const auto batch = batch_size.get<double>();
  run.metrics["ms_per_sample"] = ms / batch;
  run.metrics["samples_per_s"] = 1000 * batch / ms;
}

/// One process: how it is started, and what it leaves.
class Process {
 public:
  Process(const Case& c, const RunOptions& options, int repeat) : options_(options), folder_(options.folder / "last-run") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    spec_ = c.spec;
    if (!options.platform.empty()) spec_["platform"] = options.platform;
    if (!options.device.empty() && !spec_.contains("device") && !spec_.contains("devices")) spec_["device"] = options.device;
    is_bench_ = spec_["command"].get<std::string>().starts_with("bench");
    if (!is_bench_ && !spec_.contains("seed")) spec_["seed"] = static_cast<std::int64_t>(options.seed) + repeat;
    spec_[is_bench_ ? "json" : "log-dir"] = (folder_ / (is_bench_ ? "bench.json" : "log")).string();
    write_file_atomically(folder_ / "spec.json", [&](FileWriter& out) { out.write(spec_.dump(1) + "\n"); });
    words_ = {options.program.string()};
    if (c.is_of_peer()) {
      const fs::path out = folder_ / (is_bench_ ? "bench.json" : "log/summary.json");
      fs::create_directories(out.parent_path());
      words_ = peer_words(options, spec_, folder_ / "spec.json", out);
      return;
    }
    if (spec_.contains("np")) {
      words_.emplace_back("launch");
    } else {
      std::ranges::copy(command_words(spec_), std::back_inserter(words_));
    }
    words_.insert(words_.end(), {"--spec", (folder_ / "spec.json").string()});
  }

  ProcessRecord run(double timeout_s) {
    ProcessRecord out{
        .spec = spec_, .command = fmt::format("{}", fmt::join(words_, " ")), .started = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))};
    const ChildResult ended = study::run({.words = words_, .output = folder_ / "stdout", .errors = folder_ / "stderr", .timeout_s = timeout_s, .tick = [this] {
                                            if (options_.interrupted()) throw Interrupted();
                                          }});
    out.seconds = ended.seconds;
    out.metrics["process_seconds"] = ended.seconds;
    out.metrics["processor_seconds"] = ended.processor_seconds;
    is_bench_ ? take_bench(out, ended) : take_summary(out, ended);
    add_times(out);
    return out;
  }

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
    take_status(out, ended, folder_ / "stderr", has_case);
    if (out.status != "ok") return;
    if (all["benchmarks"].size() != 1) {
      out.status = "failed";
      out.reason = fmt::format("its spec means {} cases; accepted: one, so name its model, frontend, input and batch-size", all["benchmarks"].size());
      return;
    }
    take_numbers(measured, "", out.metrics);
    out.samples_ms = measured["samples_ms"];
    for (const char* key : {"device", "driver", "version", "commit", "threads"})
      if (all["context"].contains(key)) out.machine[key] = all["context"][key];
  }
  void take_summary(ProcessRecord& out, const ChildResult& ended) {
    const Json summary = Json::parse(text_of(folder_ / "log" / "summary.json"), nullptr, false);
    take_status(out, ended, folder_ / "stderr", summary.is_object());
    if (out.status != "ok") return;
    take_numbers(summary, "", out.metrics);
    if (summary.contains("samples_ms")) out.samples_ms = summary["samples_ms"];
    for (const char* key : {"device", "version", "threads"})
      if (summary.contains(key)) out.machine[key] = summary[key];
  }
  const RunOptions& options_;
  fs::path folder_;
  Json spec_;
  bool is_bench_ = false;
  std::vector<std::string> words_;
};

/// Refuses a case whose spec its command does not take, before anything runs. @return the spec with every key
Json check(const Case& c, const RunOptions& options) {
  const fs::path folder = options.folder / "last-run";
  fs::create_directories(folder);
  Json spec = spec_for_gemel(c);
  spec.erase("np");  // which a launcher alone takes
  std::vector<std::string> words{options.program.string()};
  std::ranges::copy(command_words(spec), std::back_inserter(words));
  words.insert(words.end(), {"--spec", spec.dump(), "--print-spec"});
  if (const ChildResult ended = run({.words = words, .output = folder / "stdout", .errors = folder / "stderr", .timeout_s = 60}); ended.status != 0)
    throw UsageError(fmt::format("study: case {}: {}", c.name, last_line(text_of(folder / "stderr"))));
  const Json whole = Json::parse(text_of(folder / "stdout"), nullptr, false);
  for (const auto& [key, value] : whole.items())
    if (value.is_array() && value.size() > 1 && key != "env" && key != "variant")
      throw UsageError(fmt::format("study: case {}: {} is {}; accepted: one value, in the spec or on an axis", c.name, key, value.dump()));
  return whole;
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
  Json about{{"name", study.name},           {"title", study.title},           {"seed", options.seed},
             {"platform", options.platform}, {"device", options.device},       {"extent", static_cast<int>(study.extent)},
             {"study", study.text},          {"peers", options.peers.string()}};
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

Json json_of(const ProcessRecord& run) {
  return {{"order", run.order},         {"case", run.name},
          {"peer", run.peer()},         {"mode", run.spec.is_object() ? run.spec.value("mode", "default") : "default"},
          {"repeat", run.repeat},       {"status", run.status},
          {"reason", run.reason},       {"command", run.command},
          {"spec", run.spec},           {"samples_ms", run.samples_ms},
          {"metrics", run.metrics},     {"machine", run.machine},
          {"agreement", run.agreement}, {"started", run.started},
          {"seconds", run.seconds}};
}

ProcessRecord run_of(const Json& json) {
  return {.order = json.at("order"),
          .name = json.at("case"),
          .repeat = json.at("repeat"),
          .status = json.at("status"),
          .reason = json.at("reason"),
          .metrics = json.at("metrics"),
          .samples_ms = json.at("samples_ms"),
          .machine = json.at("machine"),
          .spec = json.at("spec"),
          .agreement = json.value("agreement", Json()),
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
  return out;
}

namespace {

/// Blocks of all cases, until enough is known or the budget ends.
class Schedule {
 public:
  Schedule(const Study& study, const RunOptions& options, RecordFile& record, Progress& progress, Agreement& agreement)
      : study_(study), options_(options), record_(record), progress_(progress), agreement_(agreement) {}

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
      run = run_once(c, block, std::min(study_.timeout_s, rest));
    } catch (const Interrupted&) {
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
    progress_.add(run);
  }

  /// A peer's measurement comes behind the check that it computes what Gemel does.
  ProcessRecord run_once(const Case& c, int block, double timeout_s) {
    if (!c.is_of_peer()) return Process(c, options_, block).run(timeout_s);
    Case whole = c;
    whole.spec = whole_spec(c);
    ProcessRecord checked = agreement_.check(whole, timeout_s);
    if (checked.status != "ok") return checked;
    whole.spec = checked.spec;
    ProcessRecord out = Process(whole, options_, block).run(timeout_s);
    out.agreement = checked.agreement;
    return out;
  }
  /// A peer's program knows no defaults.
  const Json& whole_spec(const Case& c) {
    if (const auto it = whole_specs_.find(c.name); it != whole_specs_.end()) return it->second;
    return whole_specs_[c.name] = spec_for_peer(c, check(c, options_), options_);
  }

  const Study& study_;
  const RunOptions& options_;
  RecordFile& record_;
  Progress& progress_;
  Agreement& agreement_;
  std::map<std::string, Json> whole_specs_;
  Clock::time_point begin_ = Clock::now();
  bool budget_has_ended_ = false;
};

}  // namespace

void run_study(const Study& study, const RunOptions& options) {
  const bool goes_on = is_there(options.folder / "study.json");
  if (!goes_on)
    for (const Case& c : study.cases) check(c, options);
  const std::vector<ProcessRecord> before = begin(study, options);
  Progress progress(study, before);
  std::string whole;  // without a line that a killed process left unfinished
  for (const ProcessRecord& run : before) whole += json_of(run).dump() + "\n";
  const fs::path file = options.folder / kRuns;
  write_file_atomically(file, [&](FileWriter& out) { out.write(whole); });
  RecordFile record(Descriptor(::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)), file);
  Agreement agreement(options, before);
  Schedule(study, options, record, progress, agreement).run();
  fs::remove_all(options.folder / "last-run");
}

}  // namespace gemel::study
