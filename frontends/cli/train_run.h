// One run of `gemel train`: epochs, steps, validation, checkpoints, records.
#pragma once
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/anomaly.h"
#include "frontends/cli/checkpoint.h"
#include "frontends/cli/evaluation.h"
#include "frontends/cli/progress.h"
#include "frontends/cli/run_scope.h"
#include "frontends/cli/train_options.h"
#include "frontends/cli/training.h"

namespace gemel::cli {

class TrainRun {
 public:
  TrainRun(TrainOptions options, const std::vector<std::string>& arguments);
  /// @return exit status: 0 done, 1 interrupted
  /// @throws Error what ends the run early; the record then says "failed"
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    PendingStep result;
    std::int64_t step, batch;  // of the run, from 1; of the epoch, from 0
    double rate;
  };

  void check_outputs();
  void check_last_batch() const;
  void load_data();
  void build_model();
  void resume();
  void log_start();
  bool done() const;
  void train_epoch();
  void train_batches();
  void train_batch(const datasets::Batch& batch);
  void settle(std::size_t leave);
  void report(const Pending& p, const StepResult& result);
  [[noreturn]] void fail_on_loss(const std::string& which, double loss) const;
  std::string validate(nlohmann::ordered_json& line);
  void end_epoch(double seconds, std::int64_t samples);
  void save_state();
  double rate_now() const;

  TrainOptions options_;
  RunScope scope_;
  datasets::Splits data_;
  std::unique_ptr<datasets::Loader> loader_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Training> training_;
  std::optional<AnomalyDetector> anomaly_;
  std::optional<Progress> progress_;
  std::optional<std::string> resumed_from_;
  RunIdentity identity_;
  CheckpointFolder checkpoints_;
  RunState state_;
  std::deque<Pending> pending_;
  Clock::time_point last_report_ = Clock::now();
};

}  // namespace gemel::cli
