#include "frontends/study/runner/study_runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/folder_lock.h"
#include "engine/base/machine_facts.h"
#include "engine/base/numbers.h"
#include "engine/base/resource_limits.h"
#include "frontends/study/peers/agreement.h"
#include "frontends/study/peers/peers.h"
#include "frontends/study/runner/case_process.h"
#include "frontends/study/runner/case_spec.h"
#include "frontends/study/runner/child_process.h"
#include "frontends/study/runner/program_output.h"
#include "frontends/study/runner/progress.h"
#include "frontends/study/study_record.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The cases in the random order of a block.
std::vector<const Case*> shuffled(const Study& study, std::uint64_t seed, int block) {
  std::vector<const Case*> out;
  for (const Case& c : study.cases) out.push_back(&c);
  std::mt19937_64 random(seed * 1'000'003 + static_cast<std::uint64_t>(block));
  std::ranges::shuffle(out, random);
  return out;
}

std::string left(double seconds) { return seconds < 90 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60); }

/// The data sets whose files begin otherwise than the official ones.
Json unofficial(const Study& study, const StudyOptions& options) {
  Json out = Json::array();
  for (const DataSource& data : study.data) {
    const fs::path file = options.data / data.name / data.file;
    if (data.file.empty() || !is_there(file)) continue;
    std::string begin(data.begins.size() / 2, '\0'), text;
    std::ifstream(file, std::ios::binary).read(begin.data(), std::ssize(begin));
    for (const char byte : begin) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    if (text != data.begins) out.push_back(data.name);
  }
  return out;
}

/// Where the study runs, and by which build.
Json surroundings(const StudyOptions& options) {
  const AllowedMemory memory = allowed_memory();
  return {{"processor", processor_name()},
          {"cores", allowed_cores().count()},
          {"memory_bytes", std::min(memory.limit, memory.of_machine)},
          {"system", system_name()},
          {"gemel", options.version}};
}

/// The folder of the results, in which something can be written. It goes again where nothing was.
class ResultsFolder {
 public:
  /// @throws DataError
  explicit ResultsFolder(const fs::path& folder) : folder_(folder) {
    std::error_code error;
    is_new_ = fs::create_directories(folder, error);
    if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
    if (error)
      throw DataError(
          fmt::format("study: no results can be written in {}: {}; accepted: --out with a folder that can be written", folder.string(), error.message()));
  }
  ~ResultsFolder() {
    std::error_code none;
    if (is_new_) fs::remove(folder_, none);  // where it is empty
  }
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;

 private:
  fs::path folder_;
  bool is_new_ = false;
};

/// Removes what the last process wrote, when all have ended.
class LastRun {
 public:
  explicit LastRun(const fs::path& folder) : folder_(folder / kLastRun) {}
  ~LastRun() {
    std::error_code none;
    fs::remove_all(folder_, none);
  }
  LastRun(const LastRun&) = delete;
  LastRun& operator=(const LastRun&) = delete;

 private:
  fs::path folder_;
};

/// study.json, by which a folder is known; and the folder's earlier runs, where they are of the same study.
std::vector<ProcessRecord> begin(const Study& study, const StudyOptions& options) {
  const fs::path file = options.folder / kStudyRecord;
  Json about{{"name", study.name},
             {"title", study.title},
             {"seed", options.seed},
             {"platform", options.platform},
             {"device", options.device},
             {"extent", static_cast<int>(study.extent)},
             {kStudyText, study.text},
             {"peers", options.peers.string()},
             {"machine", surroundings(options)}};
  for (const Case& c : study.cases) about["cases"].push_back({{"name", c.name}, {"spec", c.spec}});
  about[kUnofficial] = unofficial(study, options);
  if (fs::exists(file)) {
    if (!options.resume)
      throw UsageError(fmt::format("study: {} holds a study's results; accepted: --resume to go on with it, or another --out", options.folder.string()));
    const Json before = Json::parse(text_of(file), nullptr, false);
    for (const char* key : {"cases", "seed", "platform", "device", "machine"})
      if (!before.is_object() || before.value(key, Json()) != about[key])
        throw UsageError(
            fmt::format("study: {} holds another study's results ({} differs); accepted: the same study, extent, seed, device, machine and build of Gemel, or "
                        "another --out",
                        options.folder.string(), key));
    record_text(options.folder, study.text);
    std::vector<ProcessRecord> runs = read_runs(options.folder);
    std::erase_if(runs, [](const ProcessRecord& run) { return run.status == "missing"; });  // it may be there by now
    return runs;
  }
  write_file_atomically(file, [&](FileWriter& out) { out.write(about.dump(1) + "\n"); });
  return {};
}

/// Leaves what the device can do at most in a file, for the plots that show it.
void measure_peak(const Study& study, const StudyOptions& options) {
  const fs::path file = options.folder / kPeakFile, errors = options.folder / kLastRun / "stderr";
  if (is_there(file) || std::ranges::none_of(study.plots, &Plot::has_bound)) return;
  fs::create_directories(errors.parent_path());
  std::vector<std::string> words{options.program.string(), "devices", "--measure", "--json"};
  if (!options.platform.empty()) words.insert(words.end(), {"--platform", options.platform});
  if (!options.device.empty()) words.insert(words.end(), {"--device", options.device});
  options.say("the device's peak");
  constexpr double kTimeout = 60;
  const fs::path measured = errors.parent_path() / "stdout";
  const ChildResult ended =
      run({.words = words, .output = measured, .errors = errors, .timeout_s = kTimeout, .tick = [&](auto...) { options.stop_if_interrupted(); }});
  if (ended.status != 0) {
    options.say(fmt::format("  plots are without the device's bound: {}", ended.timed_out ? "its measurement takes too long" : last_line(text_of(errors))));
    return;
  }
  write_file_atomically(file, [&](FileWriter& out) { out.write(text_of(measured)); });
}

/// What is planned of a budget: other processes of a case may take longer than those that it was learnt from.
constexpr double kPlanned = 0.9;

/// Blocks of all cases, until enough is known or the budget ends. Within a budget a pilot comes first: a process of each case, with as few steps as it can
/// have, of which the scale of all later ones follows. Where no more steps fit, the pilot is the first block.
class Schedule {
 public:
  /// @param begin  of the budget
  Schedule(const Study& study, const StudyOptions& options, std::vector<ProcessRecord> before, Clock::time_point begin)
      : study_(study), options_(options), record_(options.folder, before), runs_(std::move(before)), agreement_(options), begin_(begin) {}

  void run() {
    std::optional<double> scale = recorded_scale(options_.folder);
    if (!scale && (!has_budget() || !can_be_shortened())) record_scale(options_.folder, *(scale = 1));
    progress_.emplace(study_, runs_, scale.value_or(kLeastScale));
    if (!scale) decide_scale();
    std::map<std::string, int> repeats;  // in the first blocks, by case
    if (has_budget()) repeats = progress_->repeats_within(least_, kPlanned * left_of_budget());
    // Within a budget some of the first blocks have no case: those that have are counted for the user.
    const std::vector<int> ranks = spread_ranks(least_);
    const auto in_block = [&](const std::string& name, int block) { return block >= least_ || !has_budget() || ranks[at(block)] < repeats[name]; };
    const auto has_cases = [&](int block) { return std::ranges::any_of(study_.cases, [&](const Case& c) { return in_block(c.name, block); }); };
    for (int block = 0; block < least_; ++block) planned_blocks_ += has_cases(block);
    int number = 0;
    for (int block = 0; block < study_.most_repeats && !budget_has_ended_; ++block) {
      number += has_cases(block);
      std::vector<const Case*> due = without_gaps(shuffled(study_, options_.seed, block));
      std::erase_if(due, [&](const Case* c) { return !in_block(c->name, block); });
      run_block({.block = block, .number = number, .cases = due.size()}, due);
      if (block + 1 >= study_.least_repeats && progress_->is_enough()) return;
    }
  }

 private:
  bool has_budget() const { return options_.budget_s > 0; }
  double left_of_budget() const { return options_.budget_s - std::chrono::duration<double>(Clock::now() - begin_).count() - reserve_; }

  bool can_be_shortened() const {
    return std::ranges::any_of(study_.cases, [](const Case& c) { return scaled(c.spec, kLeastScale) != c.spec; });
  }

  void decide_scale() {
    // A peer's check and the compiling of its kernels may take all of a budget: Gemel's own cases come first, and keep what their blocks need.
    std::vector<const Case*> own = without_gaps(shuffled(study_, options_.seed, 0));
    Place place{.cases = own.size()};
    const auto peers = std::ranges::stable_partition(own, [](const Case* c) { return !c->is_of_peer(); });
    const std::vector<const Case*> of_peers(peers.begin(), peers.end());
    own.erase(peers.begin(), own.end());
    run_block(place, own);
    if (!of_peers.empty() && !budget_has_ended_) {
      reserve_ = std::min(0.5 * options_.budget_s, (least_ - 1) * progress_->seconds_of_block(true));
      place.done = own.size();
      run_block(place, of_peers);
      reserve_ = 0;
      budget_has_ended_ = false;
    }
    double scale = scale_within(progress_->costs(), least_, kPlanned * left_of_budget());
    if (constexpr double kWorthAnotherBlock = 1.25; budget_has_ended_ || scale < kWorthAnotherBlock * kLeastScale) scale = kLeastScale;
    record_scale(options_.folder, scale);
    if (scale != kLeastScale)
      progress_.emplace(study_, runs_, scale);
    else if (!budget_has_ended_)
      options_.say("the pilot counts as block 1");
    if (scale != 1)
      options_.say(fmt::format(
          "to keep to the budget processes run as few as {:.0f} % of the study's steps, but 4 steps, or an epoch of fewer samples, at least", 100 * scale));
  }

  std::vector<const Case*> without_gaps(std::vector<const Case*> cases) const {
    std::erase_if(cases, [&](const Case* c) { return progress_->is_gap(*c); });
    return cases;
  }

  /// Where the study stands, for the user.
  struct Place {
    int block = 0;
    int number = 0;  // of the block among those that have cases, from 1; 0: the pilot
    std::size_t done = 0, cases = 0;
  };
  std::string text_of(const Place& place) const {
    const int beyond = study_.most_repeats - least_;
    const std::string block = place.number == 0                ? "pilot"
                              : place.number > planned_blocks_ ? fmt::format("block {} of at most {}", place.number, planned_blocks_ + beyond)
                                                               : fmt::format("block {} of {}{}", place.number, planned_blocks_, beyond > 0 ? " or more" : "");
    return fmt::format("{}, case {} of {}", block, place.done, place.cases);
  }
  /// @param to_come  of the block  @return "; at most 5 min left"; empty where it is not known
  std::string time_left(const Place& place, std::span<const Case* const> to_come) const {
    if (has_budget()) return fmt::format("; at most {} left", left(left_of_budget()));
    double seconds = std::max(0, planned_blocks_ - place.number) * progress_->seconds_of_block();
    for (const Case* c : to_come) seconds += progress_->seconds(*c);
    return seconds > 0 ? fmt::format("; {} {} left", study_.most_repeats > least_ ? "at least" : "about", left(seconds)) : "";
  }

  /// Cases that have run in the block are counted and not run again.
  void run_block(Place place, const std::vector<const Case*>& cases) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Case& c = *cases[i];
      ++place.done;
      if (!progress_->goes_on(c, place.block)) continue;
      if (const double needs = progress_->seconds(c); has_budget() && left_of_budget() < needs) {
        budget_has_ended_ = true;
        options_.say(
            fmt::format("{}: {} is left out: it takes about {}, and {} are left", text_of(place), c.name, left(needs), left(std::max(0.0, left_of_budget()))));
        continue;  // a shorter case may fit
      }
      options_.say(fmt::format("{}: {}{}", text_of(place), c.name, time_left(place, std::span(cases).subspan(i))));
      run_case(c, place.block);
    }
  }
  void run_case(const Case& c, int block) {
    const double rest = has_budget() ? std::max(left_of_budget(), 1.0) : study_.timeout_s;
    ProcessRecord run = run_case_once(c, block, std::min(study_.timeout_s, rest));
    if (run.status == "timeout" && rest < study_.timeout_s) {  // the budget's end, not the case's fault
      budget_has_ended_ = true;
      return;
    }
    if (run.status != "ok") options_.say(fmt::format("  {}: {}", run.status, run.reason));
    run.order = progress_->order() + 1;
    run.name = c.name;
    run.repeat = block;
    run.scale = progress_->scale();
    record_.append(run);
    progress_->add(run);
    runs_.push_back(std::move(run));
  }

  /// A peer's measurement comes behind the check that it computes what Gemel does.
  ProcessRecord run_case_once(const Case& c, int block, double timeout_s) {
    Case one = c;
    if (!c.is_of_peer()) {
      one.spec = scaled(c.spec, progress_->scale());
      return run_once({one, block, timeout_s}, study_, options_);
    }
    std::string missing;
    try {
      one.spec = with_data(scaled(whole_spec(c), progress_->scale()), study_, options_, missing);
    } catch (const DataError& e) {
      missing = e.what();
    }
    if (!missing.empty()) return {.status = "missing", .reason = missing, .spec = one.spec};
    const auto begin = Clock::now();
    ProcessRecord checked = agreement_.check(one, timeout_s);
    if (checked.status != "ok") return checked;
    one.spec = checked.spec;
    const double rest = std::max(1.0, timeout_s - std::chrono::duration<double>(Clock::now() - begin).count());
    ProcessRecord out = run_once({one, block, rest}, study_, options_);
    out.agreement = checked.agreement;
    return out;
  }
  /// A peer's program knows no defaults.
  const Json& whole_spec(const Case& c) {
    if (const auto it = whole_specs_.find(c.name); it != whole_specs_.end()) return it->second;
    return whole_specs_[c.name] = spec_for_peer(c, check(c, study_, options_), options_);
  }

  const Study& study_;
  const StudyOptions& options_;
  RunRecord record_;
  std::vector<ProcessRecord> runs_;
  std::optional<Progress> progress_;
  Agreement agreement_;
  std::map<std::string, Json> whole_specs_;
  Clock::time_point begin_;
  const int least_ = std::min(study_.least_repeats, study_.most_repeats);  // blocks before it is asked whether more are needed
  int planned_blocks_ = 0;                                                 // of these, which have cases
  double reserve_ = 0;                                                     // seconds of the budget that are kept for later
  bool budget_has_ended_ = false;
};

/// Refuses a study of which a command does not take a case, before anything runs.
void check_cases(const Study& study, const StudyOptions& options) {
  for (const Case& c : study.cases) try {
      check(c, study, options);
    } catch (const DataError&) {
      // What it needs is not there: a gap, with that reason, where it is still so when it runs.
    }
}

}  // namespace

void run_study(const Study& study, const StudyOptions& options) {
  const Clock::time_point started = Clock::now();
  const ResultsFolder folder(options.folder);
  const FolderLock lock(options.folder, "study");
  const LastRun last_run(options.folder);  // behind the lock: where another run has that, the folder is its own
  const bool goes_on = is_there(options.folder / kStudyRecord);
  try {
    if (!goes_on) {
      check_cases(study, options);
      check_data(study, options);
    }
    std::vector<ProcessRecord> before = begin(study, options);
    measure_peak(study, options);
    Schedule(study, options, std::move(before), started).run();
  } catch (const Interrupted&) {
    throw DataError(is_there(options.folder / kStudyRecord) ? fmt::format("study: interrupted; go on with --resume --out {}", options.folder.string())
                                                            : "study: interrupted before anything was measured");
  }
}

}  // namespace gemel::study
