// ProcessRecord: what one process of a study left, as runs.jsonl and usage.jsonl have it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/files/record_file.h"
#include "frontends/study/study.h"

namespace gemel::study {

/// The peer of a run that is none: the program itself.
inline constexpr const char* kGemel = "gemel";

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
  Json agreement;  // of a peer with Gemel: the differences of "outputs" and "losses"; null: none was looked for
  std::string command, started;
  double seconds = 0;
  double scale = 1;  // the share of its case's steps that it ran
  std::string peer() const { return spec.is_object() ? spec.value("peer", kGemel) : kGemel; }
};
Json json_of(const ProcessRecord& run);
ProcessRecord run_of(const Json& json);

/// The runs that a folder's runs.jsonl has; a last line that was cut off is left out. @throws DataError for a line that is none
std::vector<ProcessRecord> read_runs(const std::filesystem::path& folder);

/// Appends to a folder's records, each process at once.
class RunRecord {
 public:
  /// Begins with these runs: what a killed process left unfinished is removed. @throws DataError where it cannot be written
  RunRecord(const std::filesystem::path& folder, const std::vector<ProcessRecord>& before);
  void append(const ProcessRecord& run);

 private:
  RecordFile runs_, usage_;
};

}  // namespace gemel::study
