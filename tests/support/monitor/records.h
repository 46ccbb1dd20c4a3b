// Records of runs, as training writes them, in a folder of a test's own.
#pragma once
#include <fcntl.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/base/files/descriptor.h"
#include "frontends/monitor/run_index.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {

inline std::string start_line(const std::string& more = "") { return "{\"event\":\"start\",\"model\":\"lenet\",\"parameters\":10" + more + "}\n"; }
inline std::string step_line(int step, double loss) { return fmt::format("{{\"event\":\"step\",\"step\":{},\"epoch\":1,\"loss\":{},\"ms\":2}}\n", step, loss); }
inline std::string usage_line(int rank, double seconds, double cpu) {
  return fmt::format("{{\"event\":\"usage\",\"rank\":{},\"seconds\":{},\"cpu\":{}}}\n", rank, seconds, cpu);
}
inline std::string end_line(const char* status) { return fmt::format("{{\"event\":\"end\",\"seconds\":3,\"status\":\"{}\"}}\n", status); }
/// Steps first..last, each with its number as its loss.
inline std::string step_lines(int first, int last) {
  std::string out;
  for (int step = first; step <= last; ++step) out += step_line(step, step);
  return out;
}

/// A folder with runs in it, and one for the index.
class RecordFolder {
 public:
  std::filesystem::path runs() const { return folder_ / "runs"; }
  std::filesystem::path cache() const { return folder_ / "cache"; }
  std::filesystem::path outside() const { return folder_ / "outside"; }
  std::filesystem::path record(const std::string& run) const { return runs() / run / "run.jsonl"; }
  RecordFolder() {
    for (const auto& path : {runs(), outside()}) std::filesystem::create_directory(path);
  }
  void append(const std::string& run, const std::string& text) const {
    std::filesystem::create_directories(record(run).parent_path());
    std::ofstream(record(run), std::ios::app | std::ios::binary) << text;
  }
  monitor::RunIndex::Options options() const {
    return {.folder = runs(), .cache = cache(), .warn = [](const std::string&) {}};
  }

 private:
  TemporaryFolder folder_;
};

inline Descriptor opened(const std::filesystem::path& path) { return Descriptor(::open(path.c_str(), O_RDONLY)); }

/// The only run with this name. @throws std::out_of_range if there is none
inline nlohmann::ordered_json run_named(const monitor::RunIndex& index, const std::string& name) {
  const auto all = index.runs(0);
  for (const auto& run : all["runs"])
    if (run["name"] == name) return run;
  throw std::out_of_range(name);
}
/// A run's curve, as fine as may be.
inline monitor::Curve curve_named(const monitor::RunIndex& index, const std::string& run, const std::string& name, int rank = -1) {
  const auto found = run_named(index, run);
  for (const auto& s : found["series"])
    if (s["name"] == name && s["rank"] == rank) return index.curve({found["id"], s["id"]}, {.from = s["first"], .to = s["last"]}).value();
  throw std::out_of_range(name);
}

}  // namespace gemel::testing
