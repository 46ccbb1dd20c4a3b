// One stage of a pipeline: the pieces of a model that lie on this rank, run as a schedule says over the micro-batches of a step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "datasets/loading/batch.h"
#include "engine/parameters/parameter_set.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/distributed/pipeline/stage_messages.h"
#include "frontends/distributed/pipeline/stage_piece.h"
#include "frontends/train/tasks/task.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/pipeline/schedule.h"

namespace gemel::distributed {

/// Where a model is cut: before instructions of its captured forward pass, or before modules by their paths.
using PipelineCuts = std::variant<std::vector<std::size_t>, std::vector<std::string>>;

struct PipelinePlan {
  PipelineCuts cuts;              // between the pieces
  parallel::PipelineShape shape;  // but for the micro-batches: as many as a step is given
  StageOptions options{};
  bool trains = true;  // false: it is evaluated alone, and has no memory for gradients
  int first_rank = 0;  // stage s is rank first_rank + s of the communication
  PackOptions pack{};  // of what it trains
};

/// Each rank is given all micro-batches, of whose tensors a stage uses what its pieces read.
/// Gradients of all schedules are the same bits: each piece takes its backwards in the order of micro-batches.
class PipelineStage {
 public:
  struct Results {
    std::vector<Values> micro_batches;  // on the last stage, of each: its summed loss, then the task's outputs. Elsewhere none
    Values gradients;                   // one for each of parameters(), summed and in its place of the slab; empty where none flows
    double exposed_s = 0;               // in which it waited for other stages and had nothing to compute
  };

  /// Traces the task's forward pass over names, cuts it, materialises what this stage uses of the module's parameters and statistics, and
  /// nothing else, and packs what it trains. What no piece uses lies on the first stage.
  /// @param task           its module may have memory already; both outlive this
  /// @param micro_batch    specs of a micro-batch's tensors as the task names them; others are traced when they come
  /// @throws UsageError    fewer ranks than stages, another number of cuts than pieces; what `split` and `cuts_before` refuse; statistics that
  ///                       pieces of two stages move; pieces that in evaluation mode compute nothing, or use what other stages hold
  PipelineStage(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch, PipelinePlan plan);

  /// Of this stage, in the module's order and under its names.
  const std::vector<NamedValue>& parameters() const { return parameters_; }
  /// Whether another stage has it too, before this one: tied weights, whose gradients and updates are the same on both.
  bool has_before(const Value& parameter) const;

  /// All of the step but its update. Where it throws, the waits of the other stages end, and communication with them.
  /// @param weight  what the sum of the losses is divided by
  /// @param step    names the random draws, with each micro-batch's places: those of one process that accumulates
  /// @throws UsageError a number of micro-batches that the schedule refuses; a stage that does not train  @throws CommError where another stage failed
  Results run(std::span<const datasets::Batch> micro_batches, double weight, std::int64_t step);
  /// Forward passes in evaluation mode. @return as Results::micro_batches
  std::vector<Values> evaluate(std::span<const datasets::Batch> micro_batches);
  /// What was received since the last call; see StageOptions::keeps_spans.
  std::vector<parallel::Span> take_spans() { return std::exchange(spans_, {}); }

  const parallel::PipelineShape& shape() const { return shape_; }
  int stage() const { return communication_.rank() - first_rank_; }
  bool is_last() const { return stage() == shape_.stages - 1; }
  /// Of the largest plan of the graph front end.
  graph::ArenaUse arena() const;

 private:
  using Pieces = std::map<int, std::unique_ptr<StagePiece>>;  // [piece], of this stage
  using Captured = std::deque<std::pair<Specs, Pieces>>;      // by the inputs' specs: an uneven micro-batch has pieces of its own
  struct Tied {
    Value value;              // of this stage
    std::vector<int> stages;  // ascending
  };
  struct Step;
  std::vector<std::size_t> cuts_of(const Program& program) const;
  std::vector<Piece> pieces_for(const Specs& inputs);
  std::vector<Piece> evaluated_pieces_for(const Specs& inputs);
  Piece bound(Piece piece) const;
  void hold(const std::vector<Piece>& pieces);
  void pack_trained();
  void check_held(const std::vector<Piece>& evaluated) const;
  std::vector<std::set<int>> stages_of_state(const std::vector<Piece>& pieces) const;
  Captured& captured() { return task_.module().training() ? trained_ : evaluated_; }
  Pieces& find(const Specs& inputs);
  void begin(Step& step);
  Specs specs_of_batch(const datasets::Batch& batch) const;
  Values own_inputs(const Piece& piece, const datasets::Batch& batch, std::int64_t step) const;
  void carry_out(Step& step);
  void forward(Step& step, const parallel::Action& action);
  void backward(Step& step, const parallel::Action& action);
  void expect_next(Step& step, std::size_t from, int tag);
  void finish(Step& step);
  void add_tied(Step& step);
  template <class Work>
  void with_reached(Step& step, const StagePiece& piece, const Work& work);
  template <class Work>
  void or_end_all(const Work& work);

  Session& session_;
  parallel::CommunicationThread& communication_;
  train::Task& task_;
  std::vector<std::string> names_;  // of the task's inputs
  PipelineCuts cuts_;
  std::vector<std::set<std::string>> modules_behind_;  // [cut] of the program in training: where an evaluation is cut
  parallel::PipelineShape shape_;
  StageOptions options_;
  bool trains_;
  int first_rank_;
  PackOptions pack_;
  std::map<std::size_t, Value> state_;  // of this stage, by the input of a traced program that names it
  std::vector<NamedValue> parameters_;
  std::vector<Tied> tied_;
  Captured trained_, evaluated_;
  std::vector<parallel::Span> spans_;
};

}  // namespace gemel::distributed
