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
  std::int64_t eval_every = 1;         // epochs from one validation to the next; 0: never
  double rate = 1e-3, clip_norm = 0;   // clip_norm 0: no limit
  optim::Schedule schedule = optim::Schedule::constant;
  optim::Warmup warmup{};                  // of a linear schedule
  std::filesystem::path checkpoint_dir{};  // empty: no checkpoints
  std::int64_t checkpoint_every = 0;       // steps; 0: at the end of epochs only
  std::string model_name{};                // on record; empty: what the module says of itself
  StepOptions step{};
};

/// What every run of a trainer is told apart by: device, driver, build, the options that the course of a run depends on, and how many
/// samples and batches an epoch has.
RunIdentity identity_of(Session& session, const TrainerOptions& options, const datasets::BatchSource& data);

struct StepReport {
  std::int64_t step, epoch, batch;  // from 1; of the epoch, from 0
  double loss, rate;                // the mean loss
  std::int64_t samples;
  double samples_per_s, milliseconds;  // since the step before was done
};

struct EpochReport {
  std::int64_t epoch;             // from 1
  double seconds, samples_per_s;  // of what this process trained
  double loss;                    // the mean over the whole epoch
  std::vector<Metric> metrics;
  std::optional<double> validation_loss;
  std::vector<Metric> validation_metrics;
};

/// Is told how a run goes, and may end it. By default it says nothing.
class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void say(const std::string& /*line*/) {}
  /// @param here  batches that this call trains of the epoch  @param later  batches of the run after them
  virtual void epoch_begins(std::int64_t /*epoch*/, std::int64_t /*here*/, std::int64_t /*later*/) {}
  /// Before a step is enqueued.
  virtual void step_begins() {}
  virtual void step_done(const StepReport&) {}
  /// After the epoch's last batch, before validation.
  virtual void epoch_trained() {}
  virtual void batch_evaluated() {}
  /// @param line  of the record: may be added to
  virtual void epoch_done(const EpochReport&, nlohmann::ordered_json& /*line*/) {}
  /// Before a checkpoint is written, when all ranks have done its step and none has begun the next one.
  virtual void saves(std::int64_t /*step*/) {}
  /// What is appended to the error of a loss that is not finite.
  virtual std::string why_not_finite() { return {}; }
  /// Asked after every batch. Where it is true the run saves a checkpoint and ends.
  virtual bool interrupted() { return false; }
};

/// What a run is made of; all of it must outlive the trainer.
struct Run {
  Session& session;
  Task& task;
  optim::Optimizer& optimizer;
  datasets::BatchSource& data;
  datasets::BatchSource* validation = nullptr;
  RunLog* log = nullptr;
  Reporter* reporter = nullptr;
  Ranks* ranks = nullptr;      // that the run is shared with; data and validation are this one's shards, the log is for rank 0
  Stepper* stepper = nullptr;  // null: the trainer's own Step, of the whole model
};

class Trainer {
 public:
  /// @throws DataError where the folder of checkpoints cannot be written
  /// @param identity  what the run is told apart by besides its options, its device and its data's size, see identity_of
  Trainer(const Run& run, TrainerOptions options, RunIdentity identity = {});

  /// Goes on from a checkpoint: a file, or with "auto" the folder's newest one that is whole.
  /// Of several ranks, which all call it, the first reads; the others get what it has.
  /// @return the file, or nothing where "auto" found none, or on another rank than 0
  /// @throws DataError where it does not fit, see load_checkpoint
  std::optional<std::filesystem::path> resume(const std::string& from = "auto");
  enum class End { done, interrupted };
  /// Trains to the end, on record where there is a log: its first line, steps, epochs and last line, however it ends.
  /// @throws Error where a loss is not finite: names the step
  End run();
  /// Whether the epochs or steps asked for are trained, after `resume` for one: `run` trains nothing more.
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
  std::deque<Settled> settled_;                 // whose sums the other ranks do not know; empty where there is one
  std::optional<Settled> announced_;            // whose sums are on their way
  std::optional<Notice> agreed_;                // before the next step; none while it is on its way
  bool interrupted_ = false;                    // some rank was
  Clock::time_point last_done_ = Clock::now();  // when a step was, or the run began
};

}  // namespace gemel::train
