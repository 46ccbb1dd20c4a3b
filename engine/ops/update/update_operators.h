// Updates of optimizers by PyTorch's formulas, in place, over all parameters of a slab or some rows of a table.
#pragma once
#include <cstdint>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// Inputs of every update, besides the optimizer's slots.
struct Update {
  Value parameters, gradients;  // float32 [n]: whole slabs
  Value hyper;                  // float32 [rows, 2] {rate, weight decay}; adam's: [rows, 4], and {1 - beta1^t, 1 - beta2^t}; captured steps are fed it
  Value pages;                  // int32 [pages, 2] {row of hyper, elements that count}; row -1: parameters and slots are not changed
};
void sgd_update(Update u);
void momentum_update(Update u, const Value& velocity, double momentum, bool nesterov);
struct AdamUpdate {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool decoupled = false;  // AdamW: decay shrinks the parameter and is no part of the gradient
};
void adam_update(Update u, const Value& mean, const Value& variance, const AdamUpdate& adam);
struct RmspropUpdate {
  double alpha = 0.99, eps = 1e-8, momentum = 0;
};
/// @param velocity  not read if the momentum is 0; may then be empty
void rmsprop_update(Update u, const Value& variance, const Value& velocity, const RmspropUpdate& rmsprop);

// ---- row gradients, and updates of those rows of a table alone
/// Sums the values of each row: returns each row once, in ascending order, with the sum of its values in the order given. Surplus rows have index -1 and values
/// 0, so that shapes do not depend on contents. A whole table is returned with each row once, unchanged.
RowValues sum_rows(RowValues rows);
/// Inputs of an update of some rows of a table, besides the optimizer's slots, which are tables too.
struct RowUpdate {
  Value parameters;  // float32 [rows, width]
  RowValues sums;    // as sum_rows returns them
  Value hyper;       // as in Update, without weight decay
  std::int64_t group = 0;
};
void sgd_rows_update(RowUpdate u);
/// Updates the rows and their moments; the moments of other rows do not change.
/// Source: torch.optim.SparseAdam, 1.13
void adam_rows_update(RowUpdate u, const Value& mean, const Value& variance, const AdamUpdate& adam);

// ---- the norm of gradients that lie in slabs
/// Sums the squares of the elements that count, in pages that have a row.
/// @param gradients  float32 [n]  @param pages  as in Update
/// @return float32 [256], whose sum is the squared norm
Value page_squares(Value gradients, Value pages);
/// Scales in place: gradients *= min(1, max_norm / (norm + 1e-6)).
/// @param squares  float32 [k], of all slabs  @return the norm, float32 []
/// @throws UsageError if max_norm is not above 0
Value clip_pages(const Value& gradients, Value pages, Value squares, double max_norm);

// ---- records
std::span<const OpDef* const> update_operators();
const OpDef& sgd_update_def();
const OpDef& momentum_update_def();
const OpDef& adam_update_def();
const OpDef& rmsprop_update_def();
const OpDef& rmsprop_momentum_update_def();
const OpDef& sum_rows_def();
const OpDef& sgd_rows_update_def();
const OpDef& adam_rows_update_def();
const OpDef& page_squares_def();
const OpDef& clip_pages_def();

}  // namespace gemel::inline ops
