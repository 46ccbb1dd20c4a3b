// Runs a piece of a pipeline on zeros, as a stage would, so that its time can be measured.
#pragma once
#include <cstddef>
#include <memory>

#include "engine/core/session.h"
#include "engine/graph/cut/split.h"
#include "frontends/distributed/pipeline/stage_piece.h"

namespace gemel::distributed {

/// Layout of the inputs of a program captured with symbolic state: the task's tensors, the random state, then parameters and buffers.
struct TracedInputs {
  std::size_t first_state;
  std::size_t parameters;  // number of parameters from first_state on
  bool is_parameter(std::size_t i) const { return i >= first_state && i < first_state + parameters; }
};

class PieceOnZeros {
 public:
  /// @param traced  piece of a program captured with symbolic state  @param trains  false: forward passes alone
  PieceOnZeros(Session& session, const Piece& traced, const TracedInputs& inputs, const StageOptions& options, bool trains = true);

  /// Enqueues the forward pass of a micro-batch.
  void forward(int micro_batch);
  /// Enqueues its backward pass, which adds to the gradients of earlier micro-batches.
  void backward(int micro_batch);
  /// True if the backward passes have left work for `finish`.
  bool has_left() const { return piece_->has_left(); }
  /// Enqueues the work that a step does once after its backward passes.
  void finish() { piece_->finish(has_); }

 private:
  std::unique_ptr<StagePiece> piece_;
  Values given_, leaving_;
  std::vector<bool> has_;  // [parameter] true: it has a gradient
};

}  // namespace gemel::distributed
