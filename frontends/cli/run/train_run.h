// One run of `gemel train`: the training layer with the program's options, progress bar and records around it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/loading/data_loader.h"
#include "frontends/cli/job/job.h"
#include "frontends/cli/options/train_options.h"
#include "frontends/cli/run/progress_bar.h"
#include "frontends/cli/run/run_scope.h"
#include "frontends/cli/run/usage_record.h"
#include "frontends/cli/strategies/strategy.h"
#include "frontends/domains/workload.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/train/anomaly_detector.h"
#include "frontends/train/trainer.h"

namespace gemel::cli {

class TrainRun : private train::Reporter {
 public:
  /// @param job  must outlive the run
  TrainRun(TrainOptions options, const std::vector<std::string>& arguments, Job& job);
  /// @return exit status: 0 done, `Launched::failed` interrupted
  /// @throws Error what ends the run early; the record then says "failed"
  int run();

 private:
  void check_outputs() const;
  void check_job() const;
  void check_warmup() const;
  void choose_micro_batches();
  std::optional<std::int64_t> recorded_micro_batches() const;
  std::vector<std::int64_t> batch_sizes() const;
  std::unique_ptr<nn::Module> untouched_model() const;
  void check_last_batch() const;
  void check_batch(std::int64_t samples, const char* which) const;
  void load_data();
  void normalise_over_batch_where_shares_vary();
  std::optional<distributed::Balancing> balancing();
  void tell_shares(const parallel::LoadBalancer& balance) const;
  void build_model();
  ModelUse model_use() const;
  const Strategy& strategy() const { return *options_.parallel.strategy; }
  int copies() const { return strategy().copies(job_.size()); }
  int copy() const { return strategy().copy(job_.rank(), job_.size()); }
  /// Samples of a batch of all ranks.
  std::int64_t batch_samples() const { return std::min(options_.batch_size, work_->train_data().size()); }
  /// Of a batch of so many samples, of all ranks.
  std::int64_t micro_batches(std::int64_t samples) const { return strategy().micro_batches(samples, job_.size(), options_.accumulate); }
  void save_weights();
  train::Trainer::End trained();
  std::string what_holds_less() const;
  std::string where_there_is_room() const;
  void tell_loaded(const nn::Loaded& loaded) const;
  void make_trainer();
  void resume();
  void tell_start();
  void tell_ranks();
  void record_usage();

  void say(const std::string& line) override;
  void epoch_begins(std::int64_t epoch, std::int64_t here, std::int64_t later) override;
  void step_done(const train::StepReport& report) override;
  void step_begins() override;
  void epoch_trained() override;
  void batch_evaluated() override { scope_.times().collect(); }
  void saves(std::int64_t step) override;
  void epoch_done(const train::EpochReport& report, nlohmann::ordered_json& line) override;
  std::string why_not_finite() override;
  bool interrupted() override;

  Job& job_;
  TrainOptions options_;
  RunScope scope_;
  std::unique_ptr<domains::Workload> work_;
  std::unique_ptr<datasets::DataLoader> loader_, validation_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<train::Task> task_;
  std::unique_ptr<RankModel> shared_;
  std::optional<train::AnomalyDetector> anomaly_;
  std::optional<train::Trainer> trainer_;
  std::optional<ProgressBar> progress_;
  std::optional<UsageRecord> usage_;
  double busy_seconds_ = 0;  // of the epoch's training
};

}  // namespace gemel::cli
