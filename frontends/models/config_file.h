// Reads config.json of Hugging Face's models: sizes and rates by name.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/files/file.h"

namespace gemel::models {

class ConfigFile {
 public:
  /// @throws DataError if the file cannot be read, is not a JSON object or has a key twice
  explicit ConfigFile(const std::filesystem::path& file);
  ~ConfigFile();
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;

  /// Sets the variable to the value of a key, if the file has the key and it is not null.
  /// @throws DataError naming file, key and what is accepted
  void take(const char* key, std::int64_t& size) const;
  void take(const char* key, double& rate) const;
  void take(const char* key, bool& is_on) const;
  /// Checks that a key's text is one of `accepted`; a missing key is accepted.
  /// @throws DataError if it is not
  void require(const char* key, std::initializer_list<std::string_view> accepted) const;
  /// Checks that a key's boolean is `accepted`; a missing key is accepted.
  void require_switch(const char* key, bool accepted) const;
  /// Checks, after all keys were requested, that the file has any of them.
  /// @throws DataError if it has other keys alone, and so belongs to another program
  void require_any() const;

 private:
  [[noreturn]] void refuse(const char* key, const std::string& accepted) const;
  struct Parsed;
  std::filesystem::path file_;
  std::unique_ptr<Parsed> parsed_;
};

/// Names of configurations that every model has, the smallest first.
inline constexpr std::array<std::string_view, 4> kConfigNames{"tiny", "mini", "small", "base"};

/// Reads a model's configuration.
/// @param take  sets the configuration from a ConfigFile
/// @param check  throws UsageError for sizes that do not fit together
/// @throws DataError naming the file
template <class Config, class Take, class Check>
Config read_config(const std::filesystem::path& path, Take take, Check check) {
  const ConfigFile file(path);
  Config config;
  take(file, config);
  file.require_any();
  try {
    check(config);
  } catch (const UsageError& e) {
    throw DataError("configuration: " + path.string() + ": " + e.what());
  }
  return config;
}

/// Largest sizes of models. A larger one is a mistake, which would take minutes and gigabytes before memory runs out.
inline constexpr std::int64_t kMostLayers = 1024, kWidest = 1 << 16, kMostTokens = 1 << 24, kMostPositions = 1 << 20;
/// Checks that a size is 1..most.
/// @throws UsageError `bert: hidden_size is 0; accepted: 1..65536`
void check_size(std::string_view model, const char* name, std::int64_t size, std::int64_t most);

/// @throws UsageError always, naming what is accepted
[[noreturn]] void refuse_config(std::string_view model, const std::string& name);

/// Returns a model's configuration of that name, or reads it from a config.json.
/// @param named  [kConfigNames]  @throws UsageError if it is neither a name nor a file  @throws DataError as read_config
template <class Config, class Take, class Check>
Config config_of(std::string_view model, const std::string& name_or_file, const std::array<Config, kConfigNames.size()>& named, Take take, Check check) {
  for (std::size_t i = 0; i < named.size(); ++i)
    if (name_or_file == kConfigNames[i]) return named[i];
  if (!is_there(name_or_file)) refuse_config(model, name_or_file);
  return read_config<Config>(name_or_file, take, check);
}

}  // namespace gemel::models
