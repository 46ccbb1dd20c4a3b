// A run on record: run.jsonl, TensorBoard scalars, summary.json. Without a folder nothing is written.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/files/tensorboard.h"

namespace gemel::train {

class RunLog {
 public:
  /// Opens DIR/run.jsonl for appending: a resumed run goes on in the same file. Empty: no log.
  /// @throws DataError where the folder or a file cannot be made
  explicit RunLog(const std::string& folder);
  ~RunLog();
  /// A run that did not end well is gone on with, in its own log: what stands there of later steps and epochs is dropped, for
  /// they are done again. @throws DataError where it cannot be written; the log then stays as it was
  void go_on_after(std::int64_t step, std::int64_t epochs);
  /// Appends one line. @throws DataError where it cannot be written
  void event(const nlohmann::ordered_json& line);
  void scalar(const char* tag, double value, std::int64_t step);
  /// Writes summary.json.
  void summarise(const nlohmann::ordered_json& summary);
  bool active() const { return descriptor_ >= 0; }

 private:
  std::filesystem::path file() const { return folder_ / "run.jsonl"; }
  /// Drops a last line that a kill or a full disk tore, so that the next one is not joined to it.
  void mend();
  void open();
  std::filesystem::path folder_;
  int descriptor_ = -1;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
};

}  // namespace gemel::train
