// What every computing command has around its work: a device whose kernels are timed, a session on it, and the record of the run,
// which is written in whatever way the run ends.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/core/session.h"
#include "frontends/cli/job/job.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/run/kernel_times.h"
#include "frontends/cli/system/interrupt.h"
#include "frontends/nn/module.h"
#include "frontends/train/record/run_log.h"

namespace gemel::cli {

/// Thrown where a run that was interrupted stops, after it has saved what it saves.
struct Interrupted {};

class RunScope {
 public:
  /// Opens the log. @param command  "train"  @param arguments  as the command got them  @param about  what its first line says further
  /// @throws DataError where the folder or a file of the log cannot be made
  RunScope(CommonOptions options, const char* command, const std::vector<std::string>& arguments,
           const nlohmann::ordered_json& about = nlohmann::ordered_json::object());

  /// Runs the body and then writes, however it ended, the trace, summary.json and the log's last line.
  /// @return exit status: 0 done, `Launched::failed` interrupted
  /// @throws what the body threw; then the record says "failed". DataError where the trace of a good run cannot be written
  int carry_out(const std::function<void()>& body);

  /// Opens the device, says which, and makes a session on it.
  void open_device();
  /// The same on each rank of a job. @throws CommError where the precision that was asked for is not that of all
  void open_device(Job& job);
  /// Opens the device again where it was opened to compute otherwise. What lies on it must have gone.
  void ablate(const opencl::Ablation& ablation);
  /// For commands that do not train: writes the log's first line.
  void log_start(const std::string& model_name, const nn::Module& model);
  /// Puts the model into summary.json.
  void summarise(const std::string& model_name, const nn::Module& model);
  /// Before a batch: takes the times of finished kernels. @return whether the batch's are timed
  /// @param interrupted  by Ctrl-C, here or on another rank  @throws Interrupted
  bool begin_batch(bool interrupted = InterruptGuard::interrupted());

  const CommonOptions& options() const { return options_; }
  /// The command line: "gemel", "train", ...
  const std::vector<std::string>& argv() const { return argv_; }
  train::RunLog& log() { return log_; }
  /// What summary.json says beside status, seconds and device.
  nlohmann::ordered_json& summary() { return summary_; }
  /// The next five from `open_device` on.
  opencl::Device& device() { return *device_; }
  const std::shared_ptr<opencl::Device>& shared_device() { return device_; }
  /// Bytes that may be held on it.
  std::int64_t memory_limit() const { return device_->memory().statistics().limit; }
  Session& session() { return *session_; }
  KernelTimes& times() { return *times_; }
  /// What was added to the trace, and this rank's kernels, since the last call.
  std::vector<TraceEvent> take_trace();
  /// What the trace has beside this rank's kernels from now on.
  void add_trace(const std::vector<TraceEvent>& events) { trace_.events.insert(trace_.events.end(), events.begin(), events.end()); }
  /// Notes in the trace, if there is one, that a checkpoint is written now.
  void trace_checkpoint(std::int64_t step, const std::filesystem::path& folder);
  /// The run goes on from a checkpoint in the folder: its trace and its summary go on from those of its earlier parts.
  void go_on_after(std::int64_t step, const std::filesystem::path& folder);

 private:
  void open_as_asked();
  /// Warns of each variant that was asked for and computed nothing, once.
  void say_unused_variants();
  void end(std::string status);
  void write_profile();
  CommonOptions options_;
  std::vector<std::string> argv_;
  train::RunLog log_;
  std::shared_ptr<opencl::Device> device_;
  std::set<std::string> told_;  // variants of which it was warned
  std::unique_ptr<Session> session_;
  std::optional<KernelTimes> times_;
  ChromeTrace trace_;
  struct GoneOnWith {
    std::int64_t step;
    std::string folder;
  };
  std::optional<GoneOnWith> earlier_;
  nlohmann::ordered_json summary_ = nlohmann::ordered_json::object();
};

}  // namespace gemel::cli
