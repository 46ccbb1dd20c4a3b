#include "frontends/study/study_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/files/file.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

constexpr const char *kScale = "scale", *kAccepted = "a folder of results of `gemel study run`";

Json record_in(const fs::path& folder) {
  const fs::path file = folder / kStudyRecord;
  if (!is_there(folder)) throw DataError(fmt::format("study: the folder {} is not there; accepted: {}", folder.string(), kAccepted));
  if (!is_there(file)) throw DataError(fmt::format("study: {} has no {}; accepted: {}", folder.string(), kStudyRecord, kAccepted));
  return Json::parse(as_text(read_whole(file)), nullptr, false);
}

bool has(const Json& record, const char* key, bool (Json::*is)() const noexcept) {
  return record.is_object() && record.contains(key) && (record.at(key).*is)();
}

/// @throws DataError where the record names no study
std::string name_in(const Json& record, const fs::path& folder) {
  if (!has(record, "name", &Json::is_string)) throw DataError(fmt::format("study: {} is no record of a study", (folder / kStudyRecord).string()));
  return record["name"].get<std::string>();
}

std::optional<double> scale_in(const Json& record) {
  if (!record.is_object() || !record.contains(kScale) || !record[kScale].is_number()) return std::nullopt;
  return record[kScale].get<double>();
}

void set(const fs::path& folder, const char* key, const Json& value) {
  Json record = record_in(folder);
  record[key] = value;
  write_file_atomically(folder / kStudyRecord, [&](FileWriter& out) { out.write(record.dump(1) + "\n"); });
}

}  // namespace

Study recorded_study(const fs::path& folder) {
  const Json record = record_in(folder);
  const std::string name = name_in(record, folder);
  if (!has(record, kStudyText, &Json::is_string) || !has(record, "extent", &Json::is_number_integer) || record["extent"] < 0 || record["extent"] > 2)
    throw DataError(fmt::format("study: {} is no record of a study", (folder / kStudyRecord).string()));
  Study out = parse_study(record[kStudyText], name + ".toml", static_cast<Extent>(record["extent"].get<int>()));
  out.scale = scale_in(record);
  out.machine = record.value("machine", Json());
  for (const Json& data : record.value(kUnofficial, Json::array())) out.unofficial.push_back(word_of(data));
  return record.value("peers", "").empty() ? without_peers(std::move(out)) : out;
}

std::optional<double> recorded_scale(const fs::path& folder) { return scale_in(record_in(folder)); }

void record_scale(const fs::path& folder, double scale) { set(folder, kScale, scale); }

FoundResults results_of(const fs::path& folder) {
  FoundResults out{.folder = folder.lexically_normal(), .name = name_in(record_in(folder), folder), .tests = {}};
  if (const fs::path file = folder / "results.json"; is_there(file)) {
    const Json results = Json::parse(as_text(read_whole(file)), nullptr, false);
    if (!has(results, "tests", &Json::is_array)) throw DataError(fmt::format("study: {} is no record of results", file.string()));
    out.tests = results["tests"];
  }
  return out;
}

std::vector<fs::path> folders_of_results(const fs::path& folder) {
  std::error_code none;
  if (fs::exists(folder / kStudyRecord, none) || !fs::is_directory(folder, none)) return {folder};
  std::vector<fs::path> inner;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (fs::exists(entry.path() / kStudyRecord, none)) inner.push_back(entry.path());
  std::ranges::sort(inner);
  return inner;
}

std::vector<FoundResults> results_in(const fs::path& folder) {
  std::vector<FoundResults> out;
  for (const fs::path& one : folders_of_results(folder)) out.push_back(results_of(one));
  return out;
}

void record_text(const fs::path& folder, const std::string& text) { set(folder, kStudyText, text); }

}  // namespace gemel::study
