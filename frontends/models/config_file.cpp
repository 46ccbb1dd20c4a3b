#include "frontends/models/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"
#include "engine/base/text/json_text.h"

namespace gemel::models {

struct ConfigFile::Parsed {
  nlohmann::json json;
  std::vector<const char*> asked;  // for, in this order
  bool has_one = false;            // of those

  /// Null where it is not there, or is null.
  const nlohmann::json* find(const char* key) {
    asked.push_back(key);
    const auto it = json.find(key);
    if (it == json.end()) return nullptr;
    has_one = true;
    return it->is_null() ? nullptr : &*it;
  }
};

ConfigFile::ConfigFile(const std::filesystem::path& file) : file_(file), parsed_(std::make_unique<Parsed>()) {
  using nlohmann::json;
  const auto content = read_fetched(file);
  std::set<std::string> keys;
  std::optional<std::string> twice;
  const auto note_keys = [&](int depth, json::parse_event_t event, const json& key) {
    if (event == json::parse_event_t::key && depth == 1 && !keys.insert(key.get<std::string>()).second) twice = key.get<std::string>();
    return true;
  };
  parsed_->json = json::parse(as_text(content), note_keys, false);
  if (!parsed_->json.is_object()) throw DataError(fmt::format("configuration: {} is no JSON object; accepted: a config.json of Hugging Face's", file.string()));
  if (twice)
    throw DataError(fmt::format("configuration: {} gives {} twice; accepted: each key once", file.string(),
                                json(*twice).dump(-1, ' ', false, json::error_handler_t::replace)));
}

ConfigFile::~ConfigFile() = default;

void ConfigFile::refuse(const char* key, const std::string& accepted) const {
  throw DataError(fmt::format("configuration: {}: {} is {}; accepted: {}", file_.string(), key, message_text(parsed_->json[key]), accepted));
}

void ConfigFile::take(const char* key, std::int64_t& size) const {
  constexpr std::int64_t kMost = 1'000'000'000;
  const nlohmann::json* found = parsed_->find(key);
  if (!found) return;
  if (!found->is_number_integer() || *found < 0 || *found > kMost) refuse(key, fmt::format("a whole number, 0..{}", kMost));
  size = found->get<std::int64_t>();
}

void ConfigFile::take(const char* key, double& rate) const {
  const nlohmann::json* found = parsed_->find(key);
  if (!found) return;
  if (!found->is_number() || *found < 0 || *found > 1) refuse(key, "a number, 0..1");
  rate = found->get<double>();
}

void ConfigFile::take(const char* key, bool& is_on) const {
  const nlohmann::json* found = parsed_->find(key);
  if (!found) return;
  if (!found->is_boolean()) refuse(key, "true or false");
  is_on = found->get<bool>();
}

void ConfigFile::require(const char* key, std::initializer_list<std::string_view> accepted) const {
  const nlohmann::json* found = parsed_->find(key);
  if (!found) return;
  if (!found->is_string() || std::ranges::find(accepted, found->get_ref<const std::string&>()) == accepted.end())
    refuse(key, fmt::format("\"{}\"", fmt::join(accepted, "\", \"")));
}

void ConfigFile::require_switch(const char* key, bool accepted) const {
  const nlohmann::json* found = parsed_->find(key);
  if (found && *found != accepted) refuse(key, accepted ? "true" : "false");
}

void ConfigFile::require_any() const {
  if (parsed_->has_one || parsed_->json.empty()) return;
  throw DataError(fmt::format("configuration: {} has no key of this model's; accepted: some of {}", file_.string(), fmt::join(parsed_->asked, ", ")));
}

void check_size(std::string_view model, const char* name, std::int64_t size, std::int64_t most) {
  if (size < 1 || size > most) throw UsageError(fmt::format("{}: {} is {}; accepted: 1..{}", model, name, size, most));
}

void refuse_config(std::string_view model, const std::string& name) {
  throw UsageError(
      fmt::format("{}: the configuration '{}' is neither known nor a file; accepted: {}, or a config.json", model, name, fmt::join(kConfigNames, ", ")));
}

}  // namespace gemel::models
