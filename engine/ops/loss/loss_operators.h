// Losses.
#pragma once
#include <cstdint>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// What becomes of the rows' losses.
enum class LossReduction { mean, sum };
/// Cross-entropy of softmax(logits).
/// @param logits [N, C] @param labels int32 or int64 [N], or float [N, C] probabilities @param smoothing mixes in 1 / C
Value cross_entropy(Value logits, Value labels, double smoothing = 0, LossReduction reduction = LossReduction::mean);
/// The sum over rows, without those whose label is below 0: padding. @param labels int32 or int64 [N]
Value cross_entropy_of_labelled(Value logits, Value labels, double smoothing = 0);

// ---- connectionist temporal classification, PyTorch's ctc_loss. Legend: N samples of T frames, C classes, L labels.
struct CtcTargets {
  Value labels;   // int32 or int64 [N, L], of each sample the first ones; what follows may be anything
  Value lengths;  // of the labels' type [N], 0..L
};
struct Ctc {
  std::int64_t blank = 0;      // class that stands for no label; no label has it
  bool zero_infinity = false;  // a sample without alignment (too few frames) has loss and gradient 0, not infinity and NaN
};
/// Of each sample -log of the probability of its labels in any alignment to its frames.
/// The gradient is that for log_probs themselves; PyTorch's has exp(log_probs) added, which makes no difference behind log_softmax.
/// @param log_probs      [N, T, C] float32, as log_softmax gives them  @param input_lengths  frames, of the labels' type [N], 0..T
/// @return               float32 [N], with the rounding of a few frames however many there are
/// A length or a label out of range makes a sample's loss and gradient 0 and is told by the next read.
/// Source: A. Graves et al., Connectionist temporal classification: labelling unsegmented sequence data with recurrent neural networks, 2006
Value ctc_losses(Value log_probs, Value input_lengths, CtcTargets targets, const Ctc& ctc = {});
/// Their sum; or the mean of each loss over its labels, one at least, over the samples. @return float32 []
Value ctc_loss(Value log_probs, Value input_lengths, CtcTargets targets, const Ctc& ctc = {}, LossReduction reduction = LossReduction::mean);

// ---- records
std::span<const OpDef* const> loss_operators();
const OpDef& cross_entropy_def();
const OpDef& cross_entropy_backward_def();
const OpDef& ctc_loss_def();
const OpDef& ctc_loss_backward_def();

}  // namespace gemel::inline ops
