// One stage of a pipeline: the pieces of a model that lie on this rank, run as a schedule says over the micro-batches of a step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "datasets/batch.h"
#include "engine/parameter_set.h"
#include "frontends/distributed/stage_messages.h"
#include "frontends/distributed/stage_piece.h"
#include "frontends/train/task.h"
#include "parallel/communication_thread.h"
#include "parallel/pipeline/schedule.h"

namespace gemel::distributed {

/// Where a model is cut: before instructions of its captured forward pass, or before modules by their paths.
using PipelineCuts = std::variant<std::vector<std::size_t>, std::vector<std::string>>;

struct PipelinePlan {
  PipelineCuts cuts;            // between the schedule's pieces
  parallel::Schedule schedule;  // of which a rank carries out the actions of its stage
  StageOptions options{};
};

/// Rank r of the communication is stage r. Each rank is given all micro-batches, of whose tensors a stage uses what its pieces read.
/// Gradients of all schedules are the same bits: each piece takes its backwards in the order of micro-batches.
class PipelineStage {
 public:
  struct Results {
    std::vector<Values> micro_batches;  // on the last stage, of each: its summed loss, then the task's outputs. Elsewhere none
    Values gradients;                   // one for each of parameters(), summed and in its place of the slab; empty where none flows
  };

  /// Captures the task's forward pass in training mode, cuts it, and packs this stage's parameters where they are in no slab yet.
  /// @param task           its module is materialised in this session; both outlive this
  /// @param micro_batch    specs of a micro-batch's tensors as the task names them; others are captured when they come
  /// @throws UsageError    another number of ranks than stages or of cuts than pieces; what `split` and `cuts_before` refuse; a parameter or
  ///                       statistics that pieces of two stages use
  PipelineStage(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch, PipelinePlan plan);

  /// Of this stage, in the module's order and under its names.
  const std::vector<NamedValue>& parameters() const { return parameters_; }

  /// All of the step but its update. Where it throws, the waits of the other stages end, and communication with them.
  /// @param micro_batches  as many as the schedule has  @param weight  what the sum of their losses is divided by
  /// @param step           names the random draws, with each micro-batch's places: those of one process that accumulates
  /// @throws UsageError    another number of micro-batches  @throws CommError where another stage failed
  Results run(std::span<const datasets::Batch> micro_batches, double weight, std::int64_t step);

 private:
  using Pieces = std::map<int, std::unique_ptr<StagePiece>>;  // [piece], of this stage
  struct Step;
  std::vector<Piece> pieces_for(const Specs& inputs);
  void refuse_shared(const std::vector<Piece>& pieces) const;
  Pieces& find(const Specs& inputs);
  void forget_what_no_longer_holds();
  std::vector<Pieces*> pieces_of(std::span<const datasets::Batch> micro_batches);
  Values own_inputs(const Step& step, const Piece& piece, const datasets::Batch& batch) const;
  void carry_out(Step& step);
  void forward(Step& step, const parallel::Action& action);
  void backward(Step& step, const parallel::Action& action);
  void expect_next(Step& step, std::size_t from, int tag);
  void add_up(Step& step, const Values& parameters, Values gradients) const;
  int stage() const { return communication_.rank(); }

  Session& session_;
  parallel::CommunicationThread& communication_;
  train::Task& task_;
  std::vector<std::string> names_;  // of the task's inputs
  PipelineCuts cuts_;
  parallel::Schedule schedule_;
  StageOptions options_;
  std::vector<NamedValue> parameters_;
  std::vector<std::pair<Specs, Pieces>> captured_;  // by the inputs' specs: an uneven micro-batch has pieces of its own
};

}  // namespace gemel::distributed
