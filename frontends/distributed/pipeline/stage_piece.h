// StagePiece: a piece of a model on a pipeline's stage, with forward and backward passes interleaved over micro-batches, in either front end.
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
  Kept kept = Kept::all;                   // inputs: the backward pass recomputes the forward pass
  bool keeps_spans = false;                // of messages, for a Chrome trace
};

class StagePiece {
 public:
  virtual ~StagePiece() = default;
  StagePiece(const StagePiece&) = delete;
  StagePiece& operator=(const StagePiece&) = delete;

  const Piece& piece() const { return piece_; }
  /// Runs the forward pass of a micro-batch and keeps what its backward pass reads.
  /// @param inputs  the piece's own, then those from other pieces  @return what other pieces receive, without history
  virtual Values forward(int micro_batch, Values inputs) = 0;
  /// Runs the backward pass, with the gradients of piece().parameters() in their places (engine/parameters/parameter_slab.h). Products of few rows, which are
  /// limited by memory bandwidth, are left: those of many micro-batches become one product in `finish`.
  /// @param leaving  gradients of the outputs that have a history
  /// @param has      [piece().parameters()] true if its place already holds a gradient, to which this one is added; set if one flows
  /// @return gradients of the inputs from other pieces that want one  @throws InternalError for a piece for evaluation
  virtual Values backward(int micro_batch, const Values& leaving, std::vector<bool>& has);
  /// Adds the products that were left, after all backward passes of a step.
  /// @param has  as for backward
  void finish(std::vector<bool>& has);
  /// True if products were left.
  bool has_left() const { return !products_.empty(); }
  /// Drops micro-batches of a step that an error ended.
  virtual void forget() { products_.clear(); }
  /// Arena of the largest plan; 0 in the eager front end.
  virtual graph::ArenaUse arena() const { return {}; }

 protected:
  explicit StagePiece(Piece piece) : piece_(std::move(piece)) {}
  /// Keeps the factors of a product for `finish`, in at most half of the parameter's memory.
  void leave_product(std::size_t parameter, Value left, Value right, std::vector<bool>& has);

 private:
  struct Product {
    Values left, right;         // [micro-batch] [rows, columns]
    std::int64_t elements = 0;  // of both factors
  };
  void add_product(std::size_t parameter, Product product, std::vector<bool>& has);
  Piece piece_;
  std::map<std::size_t, Product> products_;  // [parameter]
};

/// Returns the bytes that the factors of a gradient left^T right take until the end of a step; 0 if it is computed at once.
std::int64_t left_bytes(const Spec& left, const Spec& right, int micro_batches);

std::unique_ptr<StagePiece> make_stage_piece(Session& session, Piece piece, const StageOptions& options);
/// Makes a piece that runs forward passes alone and keeps nothing.
std::unique_ptr<StagePiece> make_evaluated_piece(Session& session, Piece piece, const StageOptions& options);

Specs specs_of(const std::vector<Program::Use>& uses);
/// Returns the specs of those uses that want a gradient.
Specs tracked_specs(const std::vector<Program::Use>& uses);

}  // namespace gemel::distributed
