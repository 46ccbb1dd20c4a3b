// Losses.
#pragma once
#include <cstdint>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// Reduction of the losses of rows.
enum class LossReduction { mean, sum };
/// Cross-entropy of softmax(logits).
/// @param logits  [N, C]  @param labels  int32 or int64 [N], or probabilities, float [N, C]  @param smoothing  share of 1 / C in the targets
Value cross_entropy(Value logits, Value labels, double smoothing = 0, LossReduction reduction = LossReduction::mean);
/// Sum of the cross-entropies of rows whose label is 0 or more; negative labels are padding.
/// @param labels  int32 or int64 [N]
Value cross_entropy_of_labelled(Value logits, Value labels, double smoothing = 0);

// ---- connectionist temporal classification, PyTorch's ctc_loss. Legend: N samples of T frames, C classes, L labels.
struct CtcTargets {
  Value labels;   // int32 or int64 [N, L]; elements after a sample's length are ignored
  Value lengths;  // of the labels' type [N], 0..L
};
struct Ctc {
  std::int64_t blank = 0;      // class that stands for no label; no label has it
  bool zero_infinity = false;  // true: a sample without alignment (too few frames) has loss and gradient 0 instead of infinity and NaN
};
/// Computes for each sample -log of the probability of its labels over all alignments with its frames.
/// The gradient is that for log_probs; PyTorch's has exp(log_probs) added, which makes no difference after log_softmax.
/// @param log_probs      [N, T, C] float32, as log_softmax returns them
/// @param input_lengths  number of frames, of the labels' type [N], 0..T
/// @return float32 [N], with the rounding error of a few frames however many there are
/// A length or label out of range makes a sample's loss and gradient 0, and the host's next read throws.
/// Source: A. Graves et al., Connectionist temporal classification: labelling unsegmented sequence data with recurrent neural networks, 2006
Value ctc_losses(Value log_probs, Value input_lengths, CtcTargets targets, const Ctc& ctc = {});
/// Sum of ctc_losses, or mean over samples of each loss divided by its number of labels (1 at least).
/// @return float32 []
Value ctc_loss(Value log_probs, Value input_lengths, CtcTargets targets, const Ctc& ctc = {}, LossReduction reduction = LossReduction::mean);

// ---- records
std::span<const OpDef* const> loss_operators();
const OpDef& cross_entropy_def();
const OpDef& cross_entropy_backward_def();
const OpDef& ctc_loss_def();
const OpDef& ctc_loss_backward_def();

}  // namespace gemel::inline ops
