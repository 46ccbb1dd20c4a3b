#include "frontends/study/study_record.h"

#include <fmt/format.h>

#include <string>

#include "engine/base/error.h"
#include "engine/base/files/file.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScale = "scale";

Json record_in(const fs::path& folder) { return Json::parse(as_text(read_whole(folder / kStudyRecord)), nullptr, false); }

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
  const auto has = [&](const char* key, auto is) { return record.is_object() && record.contains(key) && (record.at(key).*is)(); };
  if (!has("name", &Json::is_string) || !has(kStudyText, &Json::is_string) || !has("extent", &Json::is_number_integer) || record["extent"] < 0 ||
      record["extent"] > 2)
    throw DataError(fmt::format("study: {} is no record of a study", (folder / kStudyRecord).string()));
  Study out = parse_study(record[kStudyText], record["name"].get<std::string>() + ".toml", static_cast<Extent>(record["extent"].get<int>()));
  out.scale = scale_in(record);
  out.machine = record.value("machine", Json());
  for (const Json& name : record.value(kUnofficial, Json::array())) out.unofficial.push_back(word_of(name));
  return record.value("peers", "").empty() ? without_peers(std::move(out)) : out;
}

std::optional<double> recorded_scale(const fs::path& folder) { return scale_in(record_in(folder)); }

void record_scale(const fs::path& folder, double scale) { set(folder, kScale, scale); }

void record_text(const fs::path& folder, const std::string& text) { set(folder, kStudyText, text); }

}  // namespace gemel::study
