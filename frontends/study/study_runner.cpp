#include "frontends/study/study_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/study/case_process.h"
#include "frontends/study/child_process.h"
#include "frontends/study/peers/agreement.h"
#include "frontends/study/peers/peers.h"
#include "frontends/study/program_output.h"
#include "frontends/study/statistics/bootstrap.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

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
    const std::string metric = run.metrics.contains(metric_) ? metric_ : "ms";  // of what the first table does not show
    if (run.metrics.contains(metric)) known.values.push_back(run.metrics[metric].get<double>());
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
std::vector<ProcessRecord> begin(const Study& study, const StudyOptions& options) {
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

/// Leaves what the device can do at most in a file, for the plots that show it.
void measure_peak(const Study& study, const StudyOptions& options) {
  const fs::path file = options.folder / kPeakFile, errors = options.folder / "last-run" / "stderr";
  if (is_there(file) || std::ranges::none_of(study.plots, &Plot::has_bound)) return;
  fs::create_directories(errors.parent_path());
  std::vector<std::string> words{options.program.string(), "devices", "--measure", "--json"};
  if (!options.platform.empty()) words.insert(words.end(), {"--platform", options.platform});
  if (!options.device.empty()) words.insert(words.end(), {"--device", options.device});
  options.say("the device's peak");
  constexpr double kTimeout = 60;
  const fs::path measured = errors.parent_path() / "stdout";
  if (const ChildResult ended = run({.words = words, .output = measured, .errors = errors, .timeout_s = kTimeout}); ended.status != 0) {
    options.say(fmt::format("  plots are without the device's bound: {}", ended.timed_out ? "its measurement takes too long" : last_line(text_of(errors))));
    return;
  }
  write_file_atomically(file, [&](FileWriter& out) { out.write(text_of(measured)); });
}

/// Blocks of all cases, until enough is known or the budget ends.
class Schedule {
 public:
  Schedule(const Study& study, const StudyOptions& options, RunRecord& record, Progress& progress, Agreement& agreement)
      : study_(study), options_(options), progress_(progress), record_(record), agreement_(agreement) {}

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
      run = run_case_once(c, block, std::min(study_.timeout_s, rest));
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
    record_.append(run);
    progress_.add(run);
  }

  /// A peer's measurement comes behind the check that it computes what Gemel does.
  ProcessRecord run_case_once(const Case& c, int block, double timeout_s) {
    if (!c.is_of_peer()) return run_once({c, block, timeout_s}, study_, options_);
    Case whole = c;
    std::string missing;
    whole.spec = with_data(whole_spec(c), study_, options_, missing);
    if (!missing.empty()) return {.status = "missing", .reason = missing, .spec = whole.spec};
    ProcessRecord checked = agreement_.check(whole, timeout_s);
    if (checked.status != "ok") return checked;
    whole.spec = checked.spec;
    ProcessRecord out = run_once({whole, block, timeout_s}, study_, options_);
    out.agreement = checked.agreement;
    return out;
  }
  /// A peer's program knows no defaults.
  const Json& whole_spec(const Case& c) {
    if (const auto it = whole_specs_.find(c.name); it != whole_specs_.end()) return it->second;
    return whole_specs_[c.name] = spec_for_peer(c, check(c, options_), options_);
  }

  const Study& study_;
  const StudyOptions& options_;
  Progress& progress_;
  RunRecord& record_;
  Agreement& agreement_;
  std::map<std::string, Json> whole_specs_;
  Clock::time_point begin_ = Clock::now();
  bool budget_has_ended_ = false;
};

}  // namespace

void run_study(const Study& study, const StudyOptions& options) {
  const bool goes_on = is_there(options.folder / "study.json");
  if (!goes_on) {
    for (const Case& c : study.cases) check(c, options);
    check_data(study, options);
  }
  const std::vector<ProcessRecord> before = begin(study, options);
  measure_peak(study, options);
  Progress progress(study, before);
  RunRecord record(options.folder, before);
  Agreement agreement(options);
  Schedule(study, options, record, progress, agreement).run();
  fs::remove_all(options.folder / "last-run");
}

}  // namespace gemel::study
