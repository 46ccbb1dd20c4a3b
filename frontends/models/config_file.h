// config.json as Hugging Face's models have it: sizes and rates by name.
#pragma once
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/error.h"

namespace gemel::models {

class ConfigFile {
 public:
  /// @throws DataError where the file cannot be read or is no JSON object
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

 private:
  [[noreturn]] void refuse(const char* key, const std::string& accepted) const;
  struct Parsed;
  std::filesystem::path file_;
  std::unique_ptr<Parsed> parsed_;
};

/// What `take` takes of a file. @param check  throws UsageError for sizes that do not fit together  @throws DataError naming the file
template <class Config, class Take, class Check>
Config read_config(const std::filesystem::path& path, Take take, Check check) {
  const ConfigFile file(path);
  Config config;
  take(file, config);
  try {
    check(config);
  } catch (const UsageError& e) {
    throw DataError("configuration: " + path.string() + ": " + e.what());
  }
  return config;
}

}  // namespace gemel::models
