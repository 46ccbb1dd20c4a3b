// A run on record: run.jsonl, TensorBoard scalars, summary.json. Without a folder nothing is written.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
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

/// A line of warning, to standard error.
void warn(const std::string& line);

/// What its folder's lock is for.
constexpr const char* kLog = "log";

/// A disk that fills takes from the record and nothing from the run: what does not fit is left out as whole lines, and a warning tells of it once.
class RunLog {
 public:
  using Warn = std::function<void(const std::string& line)>;
  /// Opens DIR/run.jsonl for appending: a resumed run goes on in the same file. Empty: no log.
  /// @param about  what the program adds to a run's first line: {"argv": [..]}  @param warn  is told of what is left out
  /// @throws DataError where the folder or a file cannot be made or is no regular file, or another run writes into it
  explicit RunLog(const std::string& folder, nlohmann::ordered_json about = nlohmann::ordered_json::object(), Warn warn = train::warn);
  /// Adds to what a run's first line says.
  void tell_about(const nlohmann::ordered_json& more) { about_.update(more); }
  /// Begins a run. Runs may lie within each other, as training lies in a program that writes more when it is done: they are one on
  /// record, which ends with the outermost.
  void begin();
  /// The run's first line. @param parameters  elements of the model's  @param resumed_from  the checkpoint; empty: it starts afresh
  void start(Session& session, const std::string& model_name, std::int64_t parameters, const std::filesystem::path& resumed_from = {});
  /// The run's steps begin with this one: in TensorBoard's curves it stands in place of what an earlier run, or an earlier part of this one, has there.
  void begin_steps(std::int64_t first);
  /// Ends what began last; the outermost writes the run's last line. @param status  "ok", "interrupted", "failed"
  void end(const std::string& status);
  /// Since the outermost run began, and of the parts of it that ended before it was gone on with, as far as they are on record.
  double seconds() const;
  /// The line of the last epoch that is done, of a run that is gone on with; null where there is none.
  const nlohmann::ordered_json& last_epoch() const { return last_epoch_; }
  /// A run that did not end well is gone on with, in its own log: what stands there of later steps and epochs is dropped, for
  /// they are done again. Where the disk has no room for that the log stays as it was, and a warning says so.
  /// @throws DataError where it cannot be read
  void go_on_after(std::int64_t step, std::int64_t epochs);
  /// Appends one line.
  void event(const nlohmann::ordered_json& line);
  void scalar(const char* tag, double value, std::int64_t step);
  /// Writes summary.json.
  void summarise(const nlohmann::ordered_json& summary);
  bool active() const { return lines_.has_value(); }

 private:
  std::filesystem::path file() const { return folder_ / "run.jsonl"; }
  std::filesystem::path summary_file() const { return folder_ / "summary.json"; }
  /// Drops a last line that a kill or a full disk tore, so that the next one is not joined to it.
  void mend();
  void open();
  void record(const std::function<void()>& write);
  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;
  nlohmann::ordered_json about_;
  int running_ = 0;  // runs that lie within each other
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double seconds_before_ = 0;
  nlohmann::ordered_json last_epoch_;
  std::optional<RecordFile> lines_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  Warn warn_;
  bool has_warned_ = false;
};

}  // namespace gemel::train
