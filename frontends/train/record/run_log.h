// RunLog: records a run in run.jsonl, TensorBoard scalars and summary.json. Without a folder nothing is written.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "engine/base/files/folder_lock.h"
#include "engine/base/files/record_file.h"
#include "engine/core/session.h"
#include "engine/device/device_facts.h"
#include "engine/files/tensorboard.h"

namespace gemel::train {

nlohmann::ordered_json json_of(const DeviceFacts& facts);

/// Prints a warning on standard error.
void warn(const std::string& line);

/// Purpose of the folder's lock.
constexpr const char* kLog = "log";

/// The record of a run. Lines may be added from several threads. A full disk does not fail the run: lines that do not fit are left out as a whole, with one
/// warning.
class RunLog {
 public:
  using Warn = std::function<void(const std::string& line)>;
  /// Opens DIR/run.jsonl to append, so that a resumed run continues the file. An empty folder means no log.
  /// @param about  what the program adds to a run's first line: {"argv": [..]}  @param warn  is told of what is left out
  /// @throws DataError if the folder or a file cannot be made or is not a regular file, or another run writes to it
  explicit RunLog(const std::string& folder, nlohmann::ordered_json about = nlohmann::ordered_json::object(), Warn warn = train::warn);
  /// Adds to the run's first line.
  void tell_about(const nlohmann::ordered_json& more) { about_.update(more); }
  /// Begins a run. Runs may be nested, such as training in a program that writes more afterwards; they are recorded as one run, which ends with the outermost.
  void begin();
  /// Writes the run's first line.
  /// @param parameters  number of the model's parameter elements  @param resumed_from  the checkpoint; empty: a new run
  void start(Session& session, const std::string& model_name, std::int64_t parameters, const std::filesystem::path& resumed_from = {});
  /// Sets the run's first step. TensorBoard then replaces points from this step on of an earlier run or an earlier part of this run.
  void begin_steps(std::int64_t first);
  /// Ends the innermost run; the outermost writes the run's last line.
  /// @param status  "ok", "interrupted", "failed"
  void end(const std::string& status);
  /// Seconds since the outermost run began, plus those of earlier parts of a resumed run, as far as recorded.
  double seconds() const;
  /// The line of the last completed epoch of a resumed run; null if there is none.
  const nlohmann::ordered_json& last_epoch() const { return last_epoch_; }
  /// Continues the log of a run that did not end well: removes lines of later steps and epochs, which will be repeated. If the disk has no room for that, the
  /// log is not changed, with a warning.
  /// @throws DataError if the log cannot be read
  void go_on_after(std::int64_t step, std::int64_t epochs);
  /// Appends a line.
  void event(const nlohmann::ordered_json& line);
  void scalar(const char* tag, double value, std::int64_t step);
  /// Writes summary.json.
  void summarise(const nlohmann::ordered_json& summary);
  bool active() const { return lines_.has_value(); }

 private:
  std::filesystem::path file() const { return folder_ / "run.jsonl"; }
  std::filesystem::path summary_file() const { return folder_ / "summary.json"; }
  /// Removes an incomplete last line, left by a kill or a full disk, so that the next one is not joined to it.
  void mend();
  void open();
  void record(const std::function<void()>& write);
  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;
  nlohmann::ordered_json about_;
  int running_ = 0;  // nested runs
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double seconds_before_ = 0;
  nlohmann::ordered_json last_epoch_;
  std::optional<RecordFile> lines_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  Warn warn_;
  bool has_warned_ = false;
  std::mutex mutex_;  // of what is written
};

}  // namespace gemel::train
