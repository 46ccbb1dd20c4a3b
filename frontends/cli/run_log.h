// A run on record: run.jsonl, TensorBoard scalars, summary.json. Without a folder nothing is written.
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/tensorboard.h"

namespace gemel::cli {

class RunLog {
 public:
  /// Opens DIR/run.jsonl for appending: a resumed run goes on in the same file. Empty: no log.
  /// @throws DataError where the folder or a file cannot be made
  explicit RunLog(const std::string& folder);
  ~RunLog();
  /// Appends one line. @throws DataError where it cannot be written
  void event(const nlohmann::ordered_json& line);
  void scalar(const char* tag, double value, std::int64_t step);
  /// Writes summary.json.
  void summarise(const nlohmann::ordered_json& summary);
  bool active() const { return descriptor_ >= 0; }

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
};

}  // namespace gemel::cli
