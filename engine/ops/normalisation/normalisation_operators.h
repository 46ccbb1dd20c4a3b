// Operators that normalise: batches, layers, and exponentials along an axis.
#pragma once
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// Factor and offset of a normalisation.
struct Scaling {
  const Value &gamma, &beta;
};
/// Running statistics of batch_norm, updated in place: mean and variance [C], and the number of batches seen, int64 [].
struct RunningStatistics {
  const Value &mean, &var, &batches;
};
/// Normalises each channel (last axis) by the batch's mean and biased variance, and updates the running statistics: running += momentum (batch - running), with
/// the unbiased variance; batches += 1.
Value batch_norm(Value x, const Scaling& scaling, const RunningStatistics& running, double momentum = 0.1, double eps = 1e-5);
/// Normalises each channel by the running mean and variance [C], which are not changed.
Value batch_norm_inference(Value x, const Scaling& scaling, Value running_mean, Value running_var, double eps = 1e-5);
/// Moments of each channel of x [..., C]: its mean [C], and the sum of squared deviations from it [C]. Moments of parts of a batch can be merged for
/// batch_norm_inference to apply; gradients for x flow both ways.
struct Moments {
  Value mean, squares;
};
Moments channel_moments(Value x);
/// Moments of the parts of a batch, [parts, C] each, and the number of rows of each part, int64 [parts].
struct PartMoments {
  Value mean, squares, rows;
};
/// Mean and biased variance of a batch, [C] each.
struct BatchStatistics {
  Value mean, var;
};
/// Merges the moments of all parts of a batch, and updates the running statistics as batch_norm does for the whole batch.
BatchStatistics merge_moments(const PartMoments& parts, const RunningStatistics& running, double momentum = 0.1);
/// Normalises over the last axes, as many as gamma has.
Value layer_norm(Value x, Value gamma, Value beta, double eps = 1e-5);

// ---- softmax
/// y[i] = exp(x[i] - max x) / sum_j exp(x[j] - max x) along an axis.
Value softmax(Value x, int axis = -1);
Value log_softmax(Value x, int axis = -1);

// ---- records
std::span<const OpDef* const> normalisation_operators();
const OpDef& batch_norm_def();
const OpDef& batch_norm_inference_def();
const OpDef& batch_norm_backward_def();
const OpDef& channel_moments_def();
const OpDef& merge_moments_def();
const OpDef& layer_norm_def();
const OpDef& layer_norm_backward_def();
const OpDef& softmax_def();
const OpDef& log_softmax_def();

}  // namespace gemel::inline ops
