// Trainer: a run of training from its first step, or from a checkpoint, to its end: epochs, validation, checkpoints, records.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "datasets/loading/batch.h"
#include "frontends/optim/learning_rate_schedule.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/checkpoint/checkpoint.h"
#include "frontends/train/record/run_log.h"
#include "frontends/train/step.h"

namespace gemel::train {

struct TrainerOptions {
  std::int64_t epochs = 1, steps = 0;  // steps 0: the run is measured in epochs
  std::int64_t eval_every = 1;         // epochs between validations; 0: never
  double rate = 1e-3, clip_norm = 0;   // clip_norm 0: no limit
  optim::Schedule schedule = optim::Schedule::constant;
  optim::Warmup warmup{};                  // for a linear schedule
  std::filesystem::path checkpoint_dir{};  // empty: no checkpoints
  std::int64_t checkpoint_every = 0;       // in steps; 0: at the end of epochs only
  std::string model_name{};                // for records; empty: the module's description
  StepOptions step{};
};

/// Returns what identifies every run of a trainer: device, driver, build, the options that affect its course, and the numbers of samples and batches in an
/// epoch.
RunIdentity identity_of(Session& session, const TrainerOptions& options, const datasets::BatchSource& data);

struct StepReport {
  std::int64_t step, epoch, batch;  // step from 1, epoch from 1, batch from 0 in the epoch
  double loss, rate;                // loss: mean
  std::int64_t samples;
  double samples_per_s;
};

struct EpochReport {
  std::int64_t epoch;             // from 1
  double seconds, samples_per_s;  // of this process
  double loss;                    // mean over the epoch
  std::vector<Metric> metrics;
  std::optional<double> validation_loss;
  std::vector<Metric> validation_metrics;
};

/// Receives the progress of a run, and may end it. By default it does nothing.
class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void say(const std::string& /*line*/) {}
  /// @param here  number of the epoch's batches to train now  @param later  number of the run's batches after them
  virtual void epoch_begins(std::int64_t /*epoch*/, std::int64_t /*here*/, std::int64_t /*later*/) {}
  /// Called before a step is enqueued.
  virtual void step_begins() {}
  virtual void step_done(const StepReport&) {}
  /// Called after the epoch's last batch, before validation.
  virtual void epoch_trained() {}
  virtual void batch_evaluated() {}
  /// @param line  of the record; more may be added
  virtual void epoch_done(const EpochReport&, nlohmann::ordered_json& /*line*/) {}
  /// Called before a checkpoint is written, when all ranks have done its step and none has begun the next one.
  virtual void saves(std::int64_t /*step*/) {}
  /// Returns text to append to the error of a loss that is not finite.
  virtual std::string why_not_finite() { return {}; }
  /// Called after every batch. If it returns true, the run saves a checkpoint and ends.
  virtual bool interrupted() { return false; }
};

/// The parts of a run, which must outlive the trainer.
struct Run {
  Session& session;
  Task& task;
  optim::Optimizer& optimizer;
  datasets::BatchSource& data;
  datasets::BatchSource* validation = nullptr;
  RunLog* log = nullptr;
  Reporter* reporter = nullptr;
  Ranks* ranks = nullptr;      // that share the run; data and validation are this rank's shards, the log is for rank 0
  Stepper* stepper = nullptr;  // null: the trainer makes a Step of the full model
};

class Trainer {
 public:
  /// @throws DataError if the folder of checkpoints cannot be written
  /// @param identity  what identifies the run besides identity_of
  Trainer(const Run& run, TrainerOptions options, RunIdentity identity = {});

  /// Resumes from a checkpoint: a file, or with "auto" the newest complete one of the folder. All ranks call it; rank 0 reads, and the others get the state
  /// from it.
  /// @return the file; nothing if "auto" found none, or on other ranks
  /// @throws DataError if the checkpoint does not fit, see load_checkpoint
  std::optional<std::filesystem::path> resume(const std::string& from = "auto");
  enum class End { done, interrupted };
  /// Trains to the end, and records the run if there is a log: first line, steps, epochs, and last line, however it ends.
  /// @throws Error naming the step if a loss is not finite
  End run();
  /// True if the epochs or steps asked for are trained, such as after `resume`: `run` then trains nothing.
  bool done() const;

  const RunState& state() const { return state_; }
  const Stepper& step() const { return step_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Made {
    std::int64_t step, batch;
    double rate;
  };
  struct Ahead {
    Made made;
    Pending result;
  };
  /// Sums of this rank's shard of a step.
  struct Settled {
    Made made;
    Sums sums;
    double seconds;  // since the step before was done
  };
  std::optional<std::filesystem::path> read_checkpoint(const std::string& from);
  End train_epochs();
  bool epoch_is_whole() const { return state_.batch == run_.data.batches(); }
  End train_epoch();
  void train_batches();
  std::optional<datasets::Batch> next_batch();
  void train_batch(const datasets::Batch& batch, double weight);
  Notice agree();
  void agree_on_interrupt();
  bool alone() const { return ranks_.size() == 1; }
  void settle(std::size_t leave);
  void settle_all();
  void report(const Made& made, const Sums& sums, double seconds);
  bool validate(EpochReport& report);
  bool end_epoch(double seconds, std::int64_t samples);
  [[noreturn]] void fail_on_loss(const std::string& which, double loss) const;
  void save();
  double rate_now() const;

  Run run_;
  Reporter silent_;
  Ranks only_;
  Ranks& ranks_;
  TrainerOptions options_;
  RunIdentity identity_;
  std::optional<Step> own_step_;
  Stepper& step_;
  CheckpointFolder checkpoints_;
  RunState state_;
  std::filesystem::path resumed_from_;          // empty: from the beginning
  std::deque<Ahead> ahead_;                     // enqueued
  std::deque<Settled> settled_;                 // sums that other ranks do not know yet; empty if there is one rank
  std::optional<Settled> announced_;            // sums that are being exchanged
  std::optional<Notice> agreed_;                // for the next step; none while it is being exchanged
  bool interrupted_ = false;                    // on some rank
  Clock::time_point last_done_ = Clock::now();  // end of the last step, or beginning of the run
};

}  // namespace gemel::train
