// One run of `gemel train`: epochs, steps, validation, checkpoints, records.
#pragma once
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "frontends/cli/anomaly.h"
#include "frontends/cli/checkpoint.h"
#include "frontends/cli/kernel_times.h"
#include "frontends/cli/progress.h"
#include "frontends/cli/run_log.h"
#include "frontends/cli/train_options.h"

namespace gemel::cli {

class TrainRun {
 public:
  explicit TrainRun(TrainOptions options, std::vector<std::string> arguments);
  ~TrainRun();
  /// @return exit status: 0 done, 1 interrupted
  /// @throws Error what ends the run early; `run.jsonl` then ends with status "failed"
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    StepResult result;
    std::unique_ptr<opencl::PendingRead> error_word;
    std::int64_t step, samples;
    double rate;
  };
  struct Totals {
    double loss = 0;  // times samples
    std::int64_t correct = 0, samples = 0;
  };
  enum class Ended { epoch, run, interrupted };

  void check_outputs() const;
  void load_data();
  void build_model();
  void resume();
  void log_start();
  Ended train_epoch();
  void train_batch(const datasets::Batch& batch);
  void settle(std::size_t leave);
  void report(const Pending& p, double loss, std::int64_t correct);
  [[noreturn]] void fail_on_loss(const std::string& which, double loss) const;
  Totals validate();
  void end_epoch(double seconds);
  void save_state();
  void finish(const char* status);
  double rate_now() const;
  std::int64_t total_steps() const;
  RunIdentity identity() const;

  TrainOptions options_;
  std::vector<std::string> arguments_;
  RunLog log_;
  std::unique_ptr<opencl::Device> device_;
  std::unique_ptr<Session> session_;
  datasets::Splits data_;
  std::unique_ptr<datasets::Loader> loader_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Training> training_;
  std::optional<AnomalyDetector> anomaly_;
  std::optional<KernelTimes> times_;
  std::optional<Progress> progress_;
  std::optional<std::string> resumed_from_;
  RunState state_;
  std::deque<Pending> pending_;
  Clock::time_point begin_ = Clock::now(), last_report_ = Clock::now();
  nlohmann::ordered_json last_epoch_;
};

}  // namespace gemel::cli
