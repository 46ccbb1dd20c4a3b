#include "opencl/program/tuning_table.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
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

/// Of the files of all tables of a device, whatever driver it has.
std::string name_in_files(const DeviceProfile& p) {
  std::string name;
  for (const char c : p.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return name + "-";
}
std::string file_name(const DeviceProfile& p) {
  return fmt::format("{}{:016x}.json", name_in_files(p), hash_of(fmt::format("{}\n{}\n{}\n{}", p.platform, p.name, p.driver, p.compute_units)));
}

/// The device that a table was measured on, but for its driver.
Json device_of(const DeviceProfile& p) { return {{"platform", p.platform}, {"name", p.name}, {"compute_units", p.compute_units}}; }

/// Another driver's table of the same device is not used, because another driver compiles other code; told, because a run is then slower than it was.
void tell_other_drivers(const DeviceProfile& profile, const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with(name_in_files(profile))) continue;
    try {
      const Json json = Json::parse(as_text(read_whole(it->path())));
      if (json.value("device", Json()) != device_of(profile) || json.at("variants").empty()) continue;
      return warn(fmt::format("what `gemel tune` measured on {} is of driver {}, which is {} now: it is not used; `gemel tune` measures anew", profile.name,
                              json.value("driver", ""), profile.driver));
    } catch (const Json::exception&) {
      // No table, or of the time before these had their device.
    } catch (const DataError&) {
    }
  }
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
    if (!path) return {};
    if (!is_there(*path)) {
      tell_other_drivers(profile, path->parent_path());
      return {};
    }
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
  Json json = Json::parse(table.text());
  json.update({{"device", device_of(profile)}, {"driver", profile.driver}});
  write_file_atomically(*path, [&](FileWriter& out) { out.write(json.dump(1) + "\n"); });
  return *path;
}

}  // namespace gemel::opencl
