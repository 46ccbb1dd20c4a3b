#include "opencl/program/tuning_table.h"

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/hash.h"
#include "opencl/device/warn.h"
#include "opencl/program/program_cache.h"

namespace gemel::opencl {
namespace {

using Json = nlohmann::json;

std::string file_name(const DeviceProfile& p) {
  std::string name;
  for (const char c : p.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return fmt::format("{}-{:016x}.json", name, hash_of(fmt::format("{}\n{}\n{}\n{}", p.platform, p.name, p.driver, p.compute_units)));
}

}  // namespace

const std::string* TuningTable::variant_for(const std::string& problem) const {
  const auto it = variants_.find(problem);
  return it == variants_.end() ? nullptr : &it->second;
}

void TuningTable::set(const std::string& problem, const std::string& variant) {
  if (variant.empty())
    variants_.erase(problem);
  else
    variants_[problem] = variant;
}

std::string TuningTable::name() const { return fmt::format("{:016x}", hash_of(Json{{"variants", variants_}, {"clblast", clblast}}.dump(1) + "\n")); }

std::string TuningTable::text() const { return Json{{"variants", variants_}, {"clblast", clblast}, {"checksum", name()}}.dump(1) + "\n"; }

TuningTable TuningTable::parse(const std::string& text, const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& why) {
    throw DataError(fmt::format("{}: not a tuning table ({}); delete it, or let `gemel tune --forget` empty it", path.string(), why));
  };
  TuningTable table;
  try {
    const Json json = Json::parse(text);
    json.at("variants").get_to(table.variants_);
    json.at("clblast").get_to(table.clblast);
    if (!json.contains("checksum")) refuse("it has no checksum");
    if (json["checksum"] != table.name()) refuse("its contents do not match its checksum");
  } catch (const Json::exception&) {
    refuse("it is not the JSON of one");
  }
  return table;
}

std::optional<std::filesystem::path> tuning_file(const DeviceProfile& profile) {
  const auto cache = ProgramCache::default_folder();
  if (!cache) return std::nullopt;
  return *cache / "tuning" / file_name(profile);
}

TuningTable read_tuning(const DeviceProfile& profile) {
  const auto path = tuning_file(profile);
  try {
    if (!path || !is_there(*path)) return {};
    return TuningTable::parse(std::string(as_text(read_whole(*path))), *path);
  } catch (const DataError& e) {
    warn(std::string(e.what()) + "; it is not used");
    return {};
  }
}

std::string tuning_name(const DeviceProfile& p) { return p.preferences.tuning && !p.preferences.tuning->empty() ? p.preferences.tuning->name() : "none"; }

std::filesystem::path write_tuning(const DeviceProfile& profile, const TuningTable& table) {
  const auto path = tuning_file(profile);
  if (!path) throw DataError("tuning table: there is no folder for it; GEMEL_CACHE_DIR or HOME names one");
  std::error_code failed;
  std::filesystem::create_directories(path->parent_path(), failed);
  if (failed) throw DataError(fmt::format("{}: cannot be made: {}", path->parent_path().string(), failed.message()));
  write_file_atomically(*path, [&](FileWriter& out) { out.write(table.text()); });
  return *path;
}

}  // namespace gemel::opencl
