// StudyRunner: runs the cases of a study, each in a process of its own, in blocks of all cases in random order, and records every process at once.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "frontends/study/study.h"

namespace gemel::study {

struct RunOptions {
  std::filesystem::path program;  // gemel
  std::filesystem::path folder;   // of the study's results
  std::string platform, device;   // of every case that names no device itself; empty: the program's choice
  std::filesystem::path data;     // what "{data}" stands for in specs
  double budget_s = 0;            // 0: none
  std::uint64_t seed = 1;
  bool resume = false;
  std::function<void(const std::string& line)> say;
  std::function<bool()> interrupted = [] { return false; };
};

/// What the case's command runs: its spec without the keys that the runner or a launcher takes.
Json spec_of_run(const Case& c);

/// One finished process, as runs.jsonl has it.
struct ProcessRecord {
  std::int64_t order = 0;
  std::string name;  // of the case
  int repeat = 0;
  std::string status, reason;  // "ok", "does-not-fit", "failed", "missing", "timeout"
  Json metrics = Json::object();
  Json samples_ms = Json::array();
  Json unmeasured = Json::object();  // why a metric is not there, by its name
  Json epochs = Json::array();       // lines of its record, with `seconds` and `samples` since the first step
  std::vector<Json> usage;           // lines of usage.jsonl
  Json machine;                      // device, driver and version; null: it did not run
  Json spec;
  std::string command, started;
  double seconds = 0;
};
Json json_of(const ProcessRecord& run);
ProcessRecord run_of(const Json& json);

/// The runs that a folder's runs.jsonl has; a last line that was cut off is left out. @throws DataError for a line that is none
std::vector<ProcessRecord> read_runs(const std::filesystem::path& folder);

/// Runs until each median of the first table is known as well as the study asks, all repeats are done, or the budget has ended.
/// @throws UsageError for a case that its command does not take, and where the folder holds results and `resume` is not asked for, or holds those of another
/// study; DataError where it cannot be written
void run_study(const Study& study, const RunOptions& options);

}  // namespace gemel::study
