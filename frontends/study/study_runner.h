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
  double budget_s = 0;            // 0: none
  std::uint64_t seed = 1;
  bool resume = false;
  std::filesystem::path peers;  // a virtual environment of Python that peers are run in; empty: the study has none
  std::function<void(const std::string& line)> say;
  std::function<bool()> interrupted = [] { return false; };
};

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
  Json machine;  // device, driver and version; null: it did not run
  Json spec;
  Json agreement;  // of a peer with Gemel: the differences of "outputs" and "losses"; null: none was looked for
  std::string command, started;
  double seconds = 0;
  std::string peer() const { return spec.is_object() ? spec.value("peer", kGemel) : kGemel; }
};
Json json_of(const ProcessRecord& run);
ProcessRecord run_of(const Json& json);

/// A case's spec as Gemel's command takes it, also where the case is of a peer.
Json spec_for_gemel(const Case& c);
/// A peer's case with every key, since its program knows no defaults. @param whole  of Gemel's, with every key
Json spec_for_peer(const Case& c, Json whole, const RunOptions& options);

/// The runs that a folder's runs.jsonl has; a last line that was cut off is left out. @throws DataError for a line that is none
std::vector<ProcessRecord> read_runs(const std::filesystem::path& folder);

/// Thrown where `interrupted` says so while a program runs.
struct Interrupted {};

/// The command line by which a peer's program runs the spec of a file and writes what it leaves to `out`; without a file: by which it imports the framework.
std::vector<std::string> peer_words(const RunOptions& options, const Json& spec, const std::filesystem::path& file, const std::filesystem::path& out);
/// @throws UsageError where the environment of peers has no Python
void require_peers(const RunOptions& options);
/// Makes the environment of peers, and installs each package of studies/peers/requirements.txt there that can be; of the others it says why not.
/// @throws DataError where no environment can be made
void install_peers(const RunOptions& options);

/// Runs until each median of the first table is known as well as the study asks, all repeats are done, or the budget has ended.
/// @throws UsageError for a case that its command does not take, and where the folder holds results and `resume` is not asked for, or holds those of another
/// study; DataError where it cannot be written
void run_study(const Study& study, const RunOptions& options);

}  // namespace gemel::study
