// A piece of a model as a stage of a pipeline computes it: forwards and backwards with other micro-batches in between, in either front end.
#pragma once
#include <memory>

#include "engine/graph/split.h"
#include "engine/passes/passes.h"
#include "frontends/train/step.h"

namespace gemel::distributed {

struct StageOptions {
  train::Frontend frontend = train::Frontend::eager;
  PassNames passes = parse_passes("all");  // of the graph front end
  Kept kept = Kept::all;                   // inputs: the backward pass computes again
};

class StagePiece {
 public:
  struct Gradients {
    Values arrived;     // of what arrives and wants one
    Values parameters;  // one for each of piece().parameters(), dense; empty where none flows
  };
  virtual ~StagePiece() = default;
  StagePiece(const StagePiece&) = delete;
  StagePiece& operator=(const StagePiece&) = delete;

  const Piece& piece() const { return piece_; }
  /// Keeps what the micro-batch's backward pass reads.
  /// @param inputs  its own, then what arrived  @return what leaves, without histories
  virtual Values forward(int micro_batch, Values inputs) = 0;
  /// @param leaving  gradients of the outputs that have a history
  virtual Gradients backward(int micro_batch, const Values& leaving) = 0;
  /// Forgets micro-batches whose step was ended by an error.
  virtual void forget() = 0;
  /// Of the larger plan; 0 for the eager front end.
  virtual graph::ArenaUse arena() const { return {}; }

 protected:
  explicit StagePiece(Piece piece) : piece_(std::move(piece)) {}

 private:
  Piece piece_;
};

/// The same in evaluation: forwards only.
class ForwardPiece {
 public:
  explicit ForwardPiece(Piece piece) : piece_(std::move(piece)) {}
  virtual ~ForwardPiece() = default;
  ForwardPiece(const ForwardPiece&) = delete;
  ForwardPiece& operator=(const ForwardPiece&) = delete;

  const Piece& piece() const { return piece_; }
  /// @param inputs  its own, then what arrived
  virtual Values forward(Values inputs) = 0;

 private:
  Piece piece_;
};

std::unique_ptr<ForwardPiece> make_forward_piece(Session& session, Piece piece, const StageOptions& options);
std::unique_ptr<StagePiece> make_stage_piece(Session& session, Piece piece, const StageOptions& options);

Specs specs_of(const std::vector<Program::Use>& uses);
/// Of those of the uses that want a gradient.
Specs tracked_specs(const std::vector<Program::Use>& uses);

}  // namespace gemel::distributed
