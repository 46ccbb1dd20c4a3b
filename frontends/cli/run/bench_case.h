// One case of `gemel bench`: a model, a batch, a front end, measured step by step.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frontends/cli/job/job.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/options/optimizer_options.h"
#include "frontends/cli/options/run_spec.h"
#include "frontends/cli/run/planned_step.h"
#include "frontends/cli/run/run_scope.h"
#include "frontends/cli/strategies/strategy.h"
#include "frontends/domains/workload.h"
#include "frontends/graph/compile.h"
#include "frontends/models/pictures/picture_models.h"

namespace gemel::cli {

/// What `bench` trains by, where it is not told otherwise.
inline constexpr const char* kOptimizer = "momentum";

/// Ranks that sum nothing, as a case's name has it.
inline constexpr const char* kNoSync = "no-sync";

struct BenchCase {
  Json spec;  // with single values: it runs alone to the same case
  Work work = Work::train;
  domains::OpenWorkload open;                     // makes `with`
  std::shared_ptr<const domains::Workload> with;  // data that are made up, of as many samples as the batch has
  std::string input;                              // "3x224x224" of a picture, "128" tokens of a text, "400" frames of speech, "6040x3706" users and items
  std::int64_t batch_size = 1;                    // of all ranks together
  Frontend frontend = Frontend::graph;
  opencl::Ablation ablation = {};
  models::RecomputedParts recompute = models::RecomputedParts::none;
  bool freeze_norm = false;
  OptimizerOptions optimizer;
  std::int64_t accumulate = 1;               // micro-batches of a step, for which the batch lies on the host
  std::int64_t empty_launches = 0;           // of a kernel that does nothing, at the end of each step
  std::shared_ptr<const Strategy> strategy;  // that it runs by
  std::string parallel;                      // "ddp", ... as --parallel has it; "no-sync": ranks that sum nothing; empty: one device
  int ranks = 1;
  int copies = 1;                  // of the model, each of which has a shard
  int copy = 0;                    // this rank's
  std::int64_t micro_batches = 1;  // of the largest shard
  PlannedStep planned;             // by `plan`, of the largest shard
  std::int64_t held_bytes = 0;     // parameters, statistics, gradients, momentum and the batch

  /// Finds what a step takes on a device. @throws ShapeError where the model refuses the input
  void plan(const opencl::Device& device);
  /// Whether the model takes a step of training on so many samples.
  bool trains_on(std::int64_t samples) const;
  /// Bytes that it needs: what it holds, activations as planned without any pass, and the largest workspace.
  std::int64_t bytes_needed() const { return held_bytes + planned.arena_bytes + planned.workspace_bytes; }
  Purpose purpose() const { return work == Work::train ? Purpose::train : Purpose::infer; }
  /// The model as it is measured, without memory. @param parts  computed again in the backward pass
  std::unique_ptr<nn::Module> make_model(models::RecomputedParts parts) const;
  /// Samples of rank 0, which has one more where the batch does not divide.
  std::int64_t largest_shard() const { return (batch_size + copies - 1) / copies; }
  /// "train/resnet18/16/3x224x224/graph", "train/bert-tiny/8/128/eager"; "/recompute" where blocks are computed again, "/freeze-norm" where normalisation is
  /// frozen,
  /// "/ddp:2" where two ranks share the batch, "/pipeline:2/1f1b-8" where they are two stages; "/memory-plan:off", "/lstm:steps", "/empty-launches:40", ...
  /// where a study asks
  std::string name() const;
};

/// Of a few numbers.
struct Spread {
  double mean = 0, median = 0, min = 0, max = 0, stddev = 0;  // the deviation of a sample: over n - 1
};
/// @param values  at least one
Spread spread_of(std::vector<double> values);

struct BenchResult {
  std::vector<double> seconds;                 // of each measured step, from its first enqueue to the host's knowing that it is done, on the slowest rank
  std::int64_t parameters = 0;                 // elements
  double measured_from = 0, measured_to = 0;   // Unix seconds of the measured steps
  double first_seconds = 0;                    // of the first step of all, which captures, plans and builds kernels
  double busy = 0;                             // the part of a step in which the device computes, of those that were timed
  std::int64_t peak_bytes = 0;                 // held on the device at once by this case
  graph::ArenaUse arena;                       // of that planned; 0 for the eager front end
  std::int64_t resident_bytes = 0;             // of the processes of all ranks: at their peaks, less before the model was built; 0 where nothing counts it
  std::vector<std::int64_t> stage_peak_bytes;  // [rank] where ranks hold parts of the model
  std::vector<double> exposed_ms;              // that each measured step waited for communication; empty where there is none
};

struct BenchLength {
  std::int64_t warmup, runs;  // steps before, the first of all among them; steps measured, at least one
};
/// Warms up, then measures. Every step works on the same batch, or this rank's shard of it, which lies on the device.
/// @param which  gets the number of micro-batches that is fastest, where none is given
/// @throws MemoryError where it does not fit  @throws Interrupted between two steps
BenchResult run_case(RunScope& run, Job& job, BenchCase& which, const BenchLength& length);
}  // namespace gemel::cli
