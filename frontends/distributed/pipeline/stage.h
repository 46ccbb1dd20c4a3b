// PipelineStage: the pieces of a model on one rank, run over the micro-batches of a step by a schedule.
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

/// Places at which a model is cut: before instructions of its captured forward pass, or before modules by their paths.
using PipelineCuts = std::variant<std::vector<std::size_t>, std::vector<std::string>>;

struct PipelinePlan {
  PipelineCuts cuts;              // between pieces
  parallel::PipelineShape shape;  // without the micro-batches, of which each step has its own number
  StageOptions options{};
  bool trains = true;  // false: evaluation alone, without memory for gradients
  int first_rank = 0;  // stage s is rank first_rank + s
  PackOptions pack{};  // for trained parameters
};

/// A stage of a pipeline. Each rank is given all micro-batches, and uses the tensors that its pieces read. Each piece runs its backward passes in the order of
/// micro-batches, so that gradients have the same bits with every schedule.
class PipelineStage {
 public:
  struct Results {
    std::vector<Values> micro_batches;  // on the last stage, for each: its summed loss, then the task's outputs; empty on other stages
    Values gradients;                   // one for each of parameters(), summed, in its place of the slab; empty if none flows
    double exposed_s = 0;               // seconds that the stage waited for others with nothing to compute
  };

  /// Captures the task's forward pass with symbolic state and cuts it. Materialises only the parameters and statistics of the module that this stage uses, and
  /// packs those that it trains. State that no piece uses is on the first stage.
  /// @param task           its module may be materialised; task and module must outlive this object
  /// @param micro_batch    specs of a micro-batch's tensors as the task names them; others are captured when they occur
  /// @throws UsageError if there are fewer ranks than stages, or the number of cuts does not fit the pieces; as `split` and `cuts_before`; if pieces of two
  ///   stages update the same statistics; if pieces in evaluation mode compute nothing, or use state of other stages
  PipelineStage(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch, PipelinePlan plan);

  /// Parameters of this stage, in the module's order and under its names.
  const std::vector<NamedValue>& parameters() const { return parameters_; }
  /// Tells if an earlier stage has the parameter too: tied weights, whose gradients and updates are the same on both.
  bool has_before(const Value& parameter) const;

  /// Runs a step without its update. If it throws, the waits of the other stages end, and communication with them.
  /// @param weight  divisor of the sum of the losses
  /// @param step    keys random draws, with each micro-batch's places; they are those of one process that accumulates
  /// @throws UsageError for a number of micro-batches that the schedule refuses, or a stage that does not train  @throws CommError if another stage failed
  Results run(std::span<const datasets::Batch> micro_batches, double weight, std::int64_t step);
  /// Runs forward passes in evaluation mode.
  /// @return as Results::micro_batches
  std::vector<Values> evaluate(std::span<const datasets::Batch> micro_batches);
  /// Returns spans of received messages since the last call; see StageOptions::keeps_spans.
  std::vector<parallel::Span> take_spans() { return std::exchange(spans_, {}); }

  const parallel::PipelineShape& shape() const { return shape_; }
  int stage() const { return communication_.rank() - first_rank_; }
  bool is_last() const { return stage() == shape_.stages - 1; }
  /// Arena of the largest plan of the graph front end.
  graph::ArenaUse arena() const;

 private:
  using Pieces = std::map<int, std::unique_ptr<StagePiece>>;  // [piece] of this stage
  using Captured = std::deque<std::pair<Specs, Pieces>>;      // by the specs of the inputs: an uneven micro-batch has pieces of its own
  struct Tied {
    Value value;              // on this stage
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
  std::vector<std::set<std::string>> modules_behind_;  // [cut] of the training program: where an evaluation is cut
  parallel::PipelineShape shape_;
  StageOptions options_;
  bool trains_;
  int first_rank_;
  PackOptions pack_;
  std::map<std::size_t, Value> state_;  // of this stage, by the input of a captured program that stands for it
  std::vector<NamedValue> parameters_;
  std::vector<Tied> tied_;
  Captured trained_, evaluated_;
  std::vector<parallel::Span> spans_;
};

}  // namespace gemel::distributed
