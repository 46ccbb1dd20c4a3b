// A piece of a pipeline computed on zeros, as a stage computes it, so that its time can be measured.
#pragma once
#include <cstddef>
#include <memory>

#include "engine/core/session.h"
#include "engine/graph/cut/split.h"
#include "frontends/distributed/pipeline/stage_piece.h"

namespace gemel::distributed {

/// Inputs of a program that was traced over names: the task's tensors, the random state, then parameters and buffers.
struct TracedInputs {
  std::size_t first_state;
  std::size_t parameters;  // so many from there on
  bool is_parameter(std::size_t i) const { return i >= first_state && i < first_state + parameters; }
};

class PieceOnZeros {
 public:
  /// @param traced  of a program traced over names  @param trains  false: forwards alone
  PieceOnZeros(Session& session, const Piece& traced, const TracedInputs& inputs, const StageOptions& options, bool trains = true);

  /// Enqueues the forward pass of a micro-batch.
  void forward(int micro_batch);
  /// Enqueues its backward pass, as of a further micro-batch, whose gradients are added to those before.
  void backward(int micro_batch);
  /// Whether the backward passes have left anything to `finish`.
  bool has_left() const { return piece_->has_left(); }
  /// Enqueues what follows the backward passes of a step once.
  void finish() { piece_->finish(has_); }

 private:
  std::unique_ptr<StagePiece> piece_;
  Values given_, leaving_;
  std::vector<bool> has_;  // [parameter]
};

}  // namespace gemel::distributed
