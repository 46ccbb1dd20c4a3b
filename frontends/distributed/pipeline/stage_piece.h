// A piece of a model as a stage of a pipeline computes it: forwards and backwards with other micro-batches in between, in either front end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/graph/cut/split.h"
#include "engine/passes/passes.h"
#include "frontends/train/step.h"

namespace gemel::distributed {

struct StageOptions {
  train::Frontend frontend = train::Frontend::eager;
  PassNames passes = parse_passes("all");  // of the graph front end
  Kept kept = Kept::all;                   // inputs: the backward pass computes again
  bool keeps_spans = false;                // of messages, for a trace
};

class StagePiece {
 public:
  virtual ~StagePiece() = default;
  StagePiece(const StagePiece&) = delete;
  StagePiece& operator=(const StagePiece&) = delete;

  const Piece& piece() const { return piece_; }
  /// Keeps what the micro-batch's backward pass reads.
  /// @param inputs  its own, then what arrived  @return what leaves, without histories
  virtual Values forward(int micro_batch, Values inputs) = 0;
  /// Puts the gradients of piece().parameters() in their places (engine/parameters/parameter_slab.h), but for products of so few rows that memory is what
  /// they wait for: those of many micro-batches are one product.
  /// @param leaving  gradients of the outputs that have a history
  /// @param has      [piece().parameters()] whether a gradient lies there already, to which this one is added; set where one flows
  /// @return gradients of what arrives and wants one  @throws InternalError  the piece is for evaluation
  virtual Values backward(int micro_batch, const Values& leaving, std::vector<bool>& has);
  /// Behind all backward passes of a step: adds the products that were left. @param has  as above
  void finish(std::vector<bool>& has);
  /// Whether there are such products.
  bool has_left() const { return !products_.empty(); }
  /// Forgets micro-batches whose step was ended by an error.
  virtual void forget() { products_.clear(); }
  /// Of the larger plan; 0 for the eager front end.
  virtual graph::ArenaUse arena() const { return {}; }

 protected:
  explicit StagePiece(Piece piece) : piece_(std::move(piece)) {}
  /// What is left of a parameter takes at most half of its memory.
  void leave_product(std::size_t parameter, Value left, Value right, std::vector<bool>& has);

 private:
  struct Product {
    Values left, right;         // [micro-batch] [rows, columns]
    std::int64_t elements = 0;  // of both
  };
  void add_product(std::size_t parameter, Product product, std::vector<bool>& has);
  Piece piece_;
  std::map<std::size_t, Product> products_;  // [parameter]
};

/// Memory that the factors of a gradient left^T right take until the end of a step of so many micro-batches; 0: it is computed at once.
std::int64_t left_bytes(const Spec& left, const Spec& right, int micro_batches);

std::unique_ptr<StagePiece> make_stage_piece(Session& session, Piece piece, const StageOptions& options);
/// Forwards only; nothing is kept.
std::unique_ptr<StagePiece> make_evaluated_piece(Session& session, Piece piece, const StageOptions& options);

Specs specs_of(const std::vector<Program::Use>& uses);
/// Of those of the uses that want a gradient.
Specs tracked_specs(const std::vector<Program::Use>& uses);

}  // namespace gemel::distributed
