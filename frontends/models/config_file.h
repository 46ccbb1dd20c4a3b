// config.json as Hugging Face's models have it: sizes and rates by name.
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
  /// @throws DataError where the file cannot be read, is no JSON object or gives a key twice
  explicit ConfigFile(const std::filesystem::path& file);
  ~ConfigFile();
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;

  /// Takes the value of a key, where the file has it and it is not null. @throws DataError naming file, key and what is accepted
  void take(const char* key, std::int64_t& size) const;
  void take(const char* key, double& rate) const;
  void take(const char* key, bool& is_on) const;
  /// @throws DataError where a key's text is none of these; a key that is not there is accepted
  void require(const char* key, std::initializer_list<std::string_view> accepted) const;
  /// The same of what is true or false.
  void require_switch(const char* key, bool accepted) const;
  /// After all keys were asked for. @throws DataError where the file has keys but none of those: it is another program's
  void require_any() const;

 private:
  [[noreturn]] void refuse(const char* key, const std::string& accepted) const;
  struct Parsed;
  std::filesystem::path file_;
  std::unique_ptr<Parsed> parsed_;
};

/// The names that configurations of every model have, from the smallest on.
inline constexpr std::array<std::string_view, 4> kConfigNames{"tiny", "mini", "small", "base"};

/// What `take` takes of a file. @param check  throws UsageError for sizes that do not fit together  @throws DataError naming the file
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

/// What models are made of at the most. A size beyond is a mistake, which would take minutes and gigabytes before memory ran out.
inline constexpr std::int64_t kMostLayers = 1024, kWidest = 1 << 16, kMostTokens = 1 << 24, kMostPositions = 1 << 20;
/// @throws UsageError `bert: hidden_size is 0; accepted: 1..65536`
void check_size(std::string_view model, const char* name, std::int64_t size, std::int64_t most);

/// @throws UsageError naming what is accepted
[[noreturn]] void refuse_config(std::string_view model, const std::string& name);

/// A model's configuration of that name, or the one of a config.json.
/// @param named  [kConfigNames]  @throws UsageError for what is neither a name nor a file  @throws DataError as read_config
template <class Config, class Take, class Check>
Config config_of(std::string_view model, const std::string& name_or_file, const std::array<Config, kConfigNames.size()>& named, Take take, Check check) {
  for (std::size_t i = 0; i < named.size(); ++i)
    if (name_or_file == kConfigNames[i]) return named[i];
  if (!is_there(name_or_file)) refuse_config(model, name_or_file);
  return read_config<Config>(name_or_file, take, check);
}

}  // namespace gemel::models
