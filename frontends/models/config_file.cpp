#include "frontends/models/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/json_text.h"

namespace gemel::models {

struct ConfigFile::Parsed {
  nlohmann::json json;
  /// Null where it is not there, or is null.
  const nlohmann::json* find(const char* key) const {
    const auto it = json.find(key);
    return it == json.end() || it->is_null() ? nullptr : &*it;
  }
};

ConfigFile::ConfigFile(const std::filesystem::path& file) : file_(file), parsed_(std::make_unique<Parsed>()) {
  const auto content = read_whole(file);
  parsed_->json = nlohmann::json::parse(as_text(content), nullptr, false);
  if (!parsed_->json.is_object()) throw DataError(fmt::format("configuration: {} is no JSON object; accepted: a config.json of Hugging Face's", file.string()));
}

ConfigFile::~ConfigFile() = default;

void ConfigFile::refuse(const char* key, const std::string& accepted) const {
  throw DataError(fmt::format("configuration: {}: {} is {}; accepted: {}", file_.string(), key, message_text(*parsed_->find(key)), accepted));
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
  if (!found->is_string() || std::ranges::find(accepted, found->get_ref<const std::string&>()) == accepted.end()) refuse(key, fmt::format("\"{}\"", fmt::join(accepted, "\", \"")));
}

void ConfigFile::require_switch(const char* key, bool accepted) const {
  const nlohmann::json* found = parsed_->find(key);
  if (found && *found != accepted) refuse(key, accepted ? "true" : "false");
}

void check_size(std::string_view model, const char* name, std::int64_t size, std::int64_t most) {
  if (size < 1 || size > most) throw UsageError(fmt::format("{}: {} is {}; accepted: 1..{}", model, name, size, most));
}

void refuse_config(std::string_view model, const std::string& name) {
  throw UsageError(fmt::format("{}: the configuration '{}' is neither known nor a file; accepted: {}, or a config.json", model, name, fmt::join(kConfigNames, ", ")));
}

}  // namespace gemel::models
