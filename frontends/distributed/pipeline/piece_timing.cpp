#include "frontends/distributed/pipeline/piece_timing.h"

#include <map>
#include <utility>

#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"

namespace gemel::distributed {
namespace {

Value zeros(Session& session, const Spec& spec) { return full(session, spec, 0); }

}  // namespace

PieceOnZeros::PieceOnZeros(Session& session, const Piece& traced, const TracedInputs& inputs, const StageOptions& options, bool trains) {
  std::map<std::size_t, Value> state;
  Values leaves;
  for (std::size_t k = 0; k < traced.own.size(); ++k)
    if (const std::size_t i = traced.own[k]; i >= inputs.first_state) {
      const Value value = zeros(session, traced.program.inputs[k].spec);
      const Value& made = state.emplace(i, trains && inputs.is_parameter(i) ? leaf(value) : value).first->second;
      if (made.node()) leaves.push_back(made);
    }
  if (!leaves.empty()) ParameterSlab::pack(leaves);
  piece_ = trains ? make_stage_piece(session, with_bound(traced, state), options) : make_evaluated_piece(session, with_bound(traced, state), options);
  const Piece& piece = piece_->piece();
  for (std::size_t k = 0; k < piece.own.size() + piece.arrives.size(); ++k) {
    const bool draws = k < piece.own.size() && piece.own[k] + 1 == inputs.first_state;
    given_.push_back(draws ? random_state(session, 1, 0, {}) : zeros(session, piece.program.inputs[k].spec));
  }
  if (!trains) return;
  for (const auto& u : piece.program.outputs)
    if (u.tracked) leaving_.push_back(zeros(session, u.spec));
  for (const Value& v : piece.parameters()) {
    if (!v.wants_gradient()) continue;
    const Value place = dense_gradient_place(v);
    apply(session, full_def(), {}, {{"shape", place.shape()}, {"dtype", place.dtype()}, {"value", 0.0}}, std::span(&place, 1));
  }
  has_.assign(piece.parameters().size(), true);
}

void PieceOnZeros::forward(int micro_batch) { piece_->forward(micro_batch, given_); }

void PieceOnZeros::backward(int micro_batch) { piece_->backward(micro_batch, leaving_, has_); }

}  // namespace gemel::distributed
