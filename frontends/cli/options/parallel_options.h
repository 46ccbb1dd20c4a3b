// The options of runs that several ranks share.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/options/arguments.h"
#include "frontends/cli/options/run_spec.h"
#include "frontends/distributed/data_parallel.h"
#include "parallel/all_reduce_algorithm.h"
#include "parallel/ddp/reducer.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/watch/failure_detector.h"

namespace gemel::cli {

/// Where a rank computes.
struct DeviceName {
  std::string platform;  // empty: as --platform says
  std::string device;    // as --device takes it
};

/// How a model is cut into stages, and a batch into micro-batches.
struct PipelineOptions {
  int stages = 0;  // 0: as many as ranks; else a divisor of them
  parallel::ScheduleKind schedule = parallel::ScheduleKind::one_f_one_b;
  int virtual_stages = 1;                   // pieces a stage
  std::int64_t micro_batches = 0;           // 0: as many as micro_batches_for says
  static constexpr int kMostByDefault = 4;  // a stage
  std::vector<std::string> modules{};       // the first one of each piece but the first; empty: by cost

  parallel::PipelineShape shape(int ranks) const { return {schedule, stages ? stages : ranks, virtual_stages}; }
  /// Of a batch of so many samples in each copy. @throws UsageError where the schedule cannot run them
  std::int64_t micro_batches_of(std::int64_t samples, int ranks) const;
};

struct ParallelOptions {
  std::string style;                // "ddp", "horovod", "pipeline", "mirrored", "dataparallel"; empty: one process
  std::vector<DeviceName> devices;  // one a rank of the machine, or a replica of the process; empty: as the machine has them
  bool sync_bn = false;
  bool balances = false;  // shares of the batch by rate
  parallel::ReducerOptions reducer;
  std::string compression_text = "none";
  std::optional<parallel::Algorithm> collective;
  parallel::WatchOptions watch;
  std::optional<parallel::horovod::Options> horovod;  // where that is the style
  std::optional<PipelineOptions> pipeline;            // the same
  std::string sums_option;                            // of a pipeline: one that was given and is about sums over its copies; empty: none

  /// Whether the ranks are replicas, or stages, in threads of this process.
  bool in_one_process() const;
  /// How many shards a batch has, and which of them is this rank's: the copies of the model.
  /// @throws UsageError where the stages do not divide the ranks
  int copies(int ranks) const;
  int copy(int rank, int ranks) const { return pipeline ? rank / pipeline->shape(ranks).stages : rank; }
  /// @param batch_size  of all ranks  @throws UsageError where that is too small, or an option is given that does nothing
  void check_ranks(std::int64_t batch_size, int ranks) const;
  /// What further options ask of the reducer.
  struct Asked {
    bool check_finite = false, keeps_spans = false;
    parallel::horovod::Horovod* horovod = nullptr;  // that carries gradients
    std::optional<distributed::Balancing> balance{};
  };
  distributed::DataParallelOptions data_parallel(const Asked& asked) const;
};

/// What tells builds of the program apart.
std::vector<distributed::Setting> program_settings();
/// What ranks of a run must have alike: the program, and its options but for those of each rank's own devices and files.
std::vector<distributed::Setting> settings_of(const Json& spec);

void add_parallel_options(po::options_description& options);
/// Those of gradients and normalisation, for commands that train.
void add_gradient_options(po::options_description& options);
/// How a pipeline is cut.
void add_pipeline_options(po::options_description& options);
/// The order in which it trains.
void add_schedule_options(po::options_description& options);
/// How a run's batches are shared.
void add_balance_option(po::options_description& options);
/// @throws UsageError
ParallelOptions parallel_options(const po::variables_map& values);

}  // namespace gemel::cli
