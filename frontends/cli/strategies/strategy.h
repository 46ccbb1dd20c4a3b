// Strategy: how the ranks of a run share its work. Each parallel style is a file of this folder and a line of the table in strategy.cpp; commands use a
// strategy without knowing which it is.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/spec.h"
#include "engine/passes/passes.h"
#include "frontends/cli/job/job.h"
#include "frontends/cli/options/parallel_options.h"
#include "frontends/cli/strategies/rank_model.h"
#include "frontends/distributed/data_parallel.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/train/step.h"

namespace gemel::cli {

/// What the ranks of a run are: this process alone, the processes that mpirun started, or threads of this process with a device each.
enum class RanksAre { one_process, processes, threads };

/// A parallel style: a record of the table.
struct Style {
  const char* name;                               // as --parallel takes it; "" without it
  const char* about;                              // for the help of --parallel
  bool in_processes = false, in_threads = false;  // what its ranks may be; with both: processes where mpirun started this one
  bool outlives_ranks = false;                    // it goes on where some ranks are lost, if what started them lets it
  /// Adds the options that are its own; null: it has none.
  void (*add_options)(po::options_description&, Purpose) = nullptr;
  /// @param common  what was read of the options of all styles
  /// @throws UsageError for an option that it has no use for
  std::shared_ptr<const Strategy> (*make)(const Style&, const po::variables_map&, const ParallelOptions& common);
};

/// The table, in the order of the help.
std::span<const Style* const> styles();
/// --parallel. @throws UsageError for a name that is not in the table
const Style& style_option(const po::variables_map& values);

/// What a rank is to do with a model.
struct ModelUse {
  Purpose purpose = Purpose::train;
  Specs batch, shard;              // of a batch of all ranks together, of the largest shard of it
  std::int64_t micro_batches = 1;  // of the largest shard
  train::Frontend frontend = train::Frontend::eager;
  PassNames passes;
  models::RecomputedParts recompute = models::RecomputedParts::none;
  bool sync_bn = false, check_finite = false, keeps_spans = false;
  std::optional<distributed::Balancing> balance{};
  std::int64_t memory_bytes = 0;              // that this rank's device may hold
  std::function<void(const Json&)> record{};  // takes an event for the run's record
  int parameter_copies = 1;                   // the weights, and in training their gradients and what the optimizer keeps for each
};

/// Made from the options by Style::make.
class Strategy : public std::enable_shared_from_this<Strategy> {
 public:
  explicit Strategy(const Style& style) : style_(style) {}
  virtual ~Strategy() = default;
  Strategy(const Strategy&) = default;
  Strategy& operator=(const Strategy&) = delete;

  const Style& style() const { return style_; }
  const char* name() const { return style_.name; }
  RanksAre ranks_are() const;

  // ---- how a batch is shared
  /// Shards of a batch: the copies of the model, and which of them is this rank's. @throws UsageError where so many ranks cannot share it
  virtual int copies(int ranks) const { return ranks; }
  virtual int copy(int rank, int /*ranks*/) const { return rank; }
  /// What has a shard, in errors.
  struct Sharer {
    const char *one, *many;
  };
  virtual Sharer sharer() const { return {"rank", "ranks"}; }
  /// @param batch_size  of all ranks  @throws UsageError where that is too small, or an option is given that does nothing
  virtual void check(Purpose purpose, std::int64_t batch_size, int ranks) const;
  /// The same strategy with what no option says chosen for batches of so many samples. @param accepts  whether the model takes so many at once
  virtual std::shared_ptr<const Strategy> fitted(int ranks, std::span<const std::int64_t> batches,
                                                 const std::function<bool(std::int64_t samples)>& accepts) const;
  /// The same strategy with what only the ranks' devices can tell measured on them. Collective. @param task  of a model without memory
  /// @param recorded  the micro-batches of the run that goes on, on rank 0: these are kept
  virtual std::shared_ptr<const Strategy> measured(Session& session, Job& job, train::Task& task, const ModelUse& use,
                                                   std::optional<std::int64_t> recorded = {}) const;
  /// Micro-batches of the largest shard of a batch of so many samples. @param accumulate  --accumulate
  virtual std::int64_t micro_batches(std::int64_t samples, int ranks, std::int64_t accumulate) const;
  /// The option that they come of.
  virtual const char* micro_batch_option() const { return "accumulate"; }
  /// Steps in which the ranks train a batch.
  virtual std::int64_t steps_per_batch(int /*ranks*/) const { return 1; }
  /// How gradients become updates, as a run's identity has it.
  virtual std::string updates() const { return "synchronous"; }
  /// Whether a rank computes all the time, so that it has cores of its own.
  virtual bool computes(int /*rank*/) const { return true; }
  /// What the name of a case of `bench` says besides style and ranks: "1f1b-8". Empty: nothing.
  virtual std::string cut(Purpose /*purpose*/, std::int64_t /*micro_batches*/) const { return ""; }

  // ---- the model
  /// Whether ranks hold different parts of it.
  virtual bool splits_model() const { return false; }
  /// The parts that the model itself recomputes where these are asked for.
  virtual models::RecomputedParts recomputed_by_model(models::RecomputedParts asked) const { return asked; }
  /// What batch statistics are taken over, as a run's identity has it.
  virtual const char* normalised_over(bool sync_bn) const { return sync_bn ? "the whole batch" : "a rank's shard"; }
  /// This rank's part of the task's model, which has no memory yet. Collective. Task, session and job outlive it.
  virtual std::unique_ptr<RankModel> model(Session& session, Job& job, train::Task& task, ModelUse use) const = 0;
  /// Where training has no room on a device: what would do, for the end of the error. Empty: it is not known. @param task  of a model without memory
  virtual std::string where_there_is_room(train::Task& /*task*/, const ModelUse& /*use*/) const { return ""; }

 protected:
  /// @throws UsageError where a batch has less than one sample for each of those that share it
  void check_shards(std::int64_t batch_size, int ranks) const;

 private:
  const Style& style_;
};

/// Each device by itself, as without --parallel.
std::shared_ptr<const Strategy> alone();

// ---- for the styles
/// @throws UsageError "--name: it is given ..." where one of these options is given  @param how  "with --parallel x, which ...; accepted: ..."
void refuse_given(const po::variables_map& values, std::span<const char* const> names, const std::string& how);
/// @throws UsageError where gradients would travel as the largest of them alone
void refuse_top_k(const ParallelOptions& common, const Style& style);

}  // namespace gemel::cli
