#include "frontends/study/run_record.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/study/runner/program_output.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

constexpr const char *kRuns = "runs.jsonl", *kUsage = "usage.jsonl";

std::string run_line(const ProcessRecord& run) { return json_of(run).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string usage_line(const ProcessRecord& run, const Json& usage) {
  Json line{{"order", run.order}, {"case", run.name}};
  line.update(usage);
  return line.dump() + "\n";
}

std::string usage_lines(const ProcessRecord& run) {
  std::string out;
  for (const Json& line : run.usage) out += usage_line(run, line);
  return out;
}

RecordFile begun(const fs::path& file, const std::string& whole) {
  write_file_atomically(file, [&](FileWriter& out) { out.write(whole); });
  return RecordFile(open_regular("study", file, O_WRONLY | O_APPEND), file);
}

template <class Lines>
std::string joined(const std::vector<ProcessRecord>& runs, Lines lines) {
  std::string out;
  for (const ProcessRecord& run : runs) out += lines(run);
  return out;
}

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

Json json_of(const ProcessRecord& run) {
  return {{"order", run.order},     {"case", run.name},
          {"peer", run.peer()},     {"mode", run.spec.is_object() ? run.spec.value("mode", "default") : "default"},
          {"repeat", run.repeat},   {"status", run.status},
          {"reason", run.reason},   {"command", run.command},
          {"spec", run.spec},       {"samples_ms", run.samples_ms},
          {"metrics", run.metrics}, {"unmeasured", run.unmeasured},
          {"epochs", run.epochs},   {"agreement", run.agreement},
          {"machine", run.machine}, {"started", run.started},
          {"seconds", run.seconds}, {"scale", run.scale}};
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
          .agreement = json.value("agreement", Json()),
          .command = json.at("command"),
          .started = json.at("started"),
          .seconds = json.at("seconds"),
          .scale = json.value("scale", 1.0)};
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

RunRecord::RunRecord(const fs::path& folder, const std::vector<ProcessRecord>& before)
    : runs_(begun(folder / kRuns, joined(before, run_line))), usage_(begun(folder / kUsage, joined(before, usage_lines))) {}

void RunRecord::append(const ProcessRecord& run) {
  runs_.append(run_line(run));
  if (!run.usage.empty()) usage_.append(usage_lines(run));
}

}  // namespace gemel::study
