// The operators as typed functions. Arguments are passed by value where an output may take over their memory: move values that are no longer needed.
// Legend: images are [N, H, W, C]; convolution weights [R, S, C / groups, K]; linear weights [in, out].
// Errors: an invalid call throws ShapeError with the operator, what was given and what is accepted.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/transpose.h"
#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel {

enum class Keep { no, yes };
using Axes = std::vector<std::int64_t>;
using Pair = std::array<std::int64_t, 2>;  // along H, along W

// ---- shape/create.cpp, index/write_rows.cpp
/// Makes a tensor whose elements all have one value.
Value full(Session& session, const Spec& spec, double value);
/// Copies x to new memory.
Value copy(Value x);
/// destination = source, in place. Shapes and element types are equal. The destination is taken without its history.
void assign(const Value& destination, Value source);
/// destination[..., start + k, ...] = source[..., k, ...] in place, for all k along an axis. The destination is taken without its history. Rows out of range
/// are an error that the host's next read throws.
/// @param start  int32 or int64, one element
void write_rows(const Value& destination, Value start, Value source, std::int64_t axis = 0);

// ---- shape/, index/
/// Returns the same elements in the same order under another shape, in the same memory. One extent may be -1.
Value reshape(Value x, const std::vector<std::int64_t>& shape);
Value reshape(Value x, const Shape& shape);
inline Value reshape(Value x, std::initializer_list<std::int64_t> shape) { return reshape(std::move(x), std::vector<std::int64_t>(shape)); }
/// Repeats x along axes of extent 1, and along new leading axes.
Value broadcast_to(Value x, const Shape& shape);
/// Permutes axes: axis i of the result is axis order[i] of x.
Value transpose(Value x, const Axes& order);
/// Concatenates along an axis; all other extents are equal.
Value concatenate(Values xs, std::int64_t axis);
/// Splits along an axis into parts of these extents, which add up to the axis' extent.
Values split(Value x, const std::vector<std::int64_t>& extents, std::int64_t axis);
/// Returns elements starts[k], starts[k] + steps[k], ... below stops[k] of each axis. Negative starts and stops count from the end.
Value slice(Value x, const Axes& starts, const Axes& stops, const Axes& steps = {});
/// Gradient of slice: zeros of the sliced tensor's `shape`, with dy where slice read.
/// @param starts  0 or more
Value slice_gradient(Value dy, const Shape& shape, const Axes& starts, const Axes& steps);
/// Adds `before` and `after` elements of `value` around x, for each axis.
Value pad(Value x, const Axes& before, const Axes& after, double value = 0);
/// y[..., i..., ...] = x[..., indices[i...], ...]: the axis is replaced by the axes of `indices` (int32 or int64).
Value gather(Value x, Value indices, std::int64_t axis = 0);
/// Gradient of gather: zeros of the indexed tensor's `shape`, with dy added where gather read. Deterministic.
/// @param into  memory for the result, or empty
Value gather_gradient(Value dy, Value indices, const Shape& shape, std::int64_t axis = 0, const Value& into = {});
/// Returns x with updates[..., i..., ...] added at x[..., indices[i...], ...], the transpose of gather. Deterministic.
Value scatter_add(Value x, Value indices, Value updates, std::int64_t axis = 0);
/// Appends an axis of extent `classes` with 1 at the index, 0 elsewhere.
Value one_hot(Value indices, std::int64_t classes, DType dtype = DType::float32);
/// Looks up rows of `weight` [V, D] by indices [...]; returns [..., D].
Value embedding(Value weight, Value indices);

// ---- elementwise/, of two inputs of one element type, with broadcasting
Value add(Value a, Value b);
Value subtract(Value a, Value b);
Value multiply(Value a, Value b);
Value divide(Value a, Value b);
Value maximum(Value a, Value b);
Value minimum(Value a, Value b);
/// a to the power of b.
Value power(Value a, Value b);
/// Divides a / b; integers and booleans are divided as float32.
Value true_divide(Value a, Value b);
/// A scalar operand beside a tensor.
struct Number {
  template <class T>
  requires std::is_arithmetic_v<T> Number(T number)
      : value(static_cast<double>(number)), whole(std::is_integral_v<T> ? static_cast<std::int64_t>(number) : 0), is_fraction(std::is_floating_point_v<T>) {}
  double value;
  std::int64_t whole;  // exact value of an integer
  bool is_fraction;    // true for a floating type, whatever its value
};
/// Returns x and a tensor of one element for the scalar, both of the element type that PyTorch promotes to: x's type, but float32 for integers with a fraction,
/// and int64 for booleans with an integer.
/// @throws UsageError for an integer out of range of the element type
std::pair<Value, Value> alike(Value x, Number number);
/// Comparisons return bool.
Value equal(Value a, Value b);
Value not_equal(Value a, Value b);
Value less(Value a, Value b);
Value less_equal(Value a, Value b);
Value greater(Value a, Value b);
Value greater_equal(Value a, Value b);
Value logical_and(Value a, Value b);
Value logical_or(Value a, Value b);
/// Returns a where the condition (bool) holds, else b.
Value where(Value condition, Value a, Value b);

// ---- elementwise/, of one input
Value negate(Value x);
Value abs(Value x);
Value sign(Value x);
Value exp(Value x);
Value log(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value reciprocal(Value x);
Value square(Value x);
Value sin(Value x);
Value cos(Value x);
Value erf(Value x);
Value tanh(Value x);
Value sigmoid(Value x);
Value logical_not(Value x);
Value is_finite(Value x);
Value clamp(Value x, double low, double high);
/// Converts to another element type. Floating point to integer truncates; to bool is x != 0.
Value cast(Value x, DType dtype);
Value relu(Value x);
Value relu6(Value x);
Value silu(Value x);
Value hard_swish(Value x);
/// x Phi(x), computed exactly (with erf).
Value gelu(Value x);
/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as in GPT-2.
/// Source: D. Hendrycks, K. Gimpel, Gaussian error linear units, 2016
Value gelu_tanh(Value x);
/// Gradients of activations: dy times the derivative.
/// @param y  output of relu and relu6  @param x  input of the others
Value relu_gradient(Value dy, Value y);
Value relu6_gradient(Value dy, Value y);
Value silu_gradient(Value dy, Value x);
Value hard_swish_gradient(Value dy, Value x);
Value gelu_gradient(Value dy, Value x);
Value gelu_tanh_gradient(Value dy, Value x);
Value clamp_gradient(Value dy, Value x, double low, double high);

// ---- reduce/
/// Reduce over axes, or over all axes if none are given. Keep::yes keeps them with extent 1.
Value sum(Value x, const Axes& axes = {}, Keep keep = Keep::no);
Value mean(Value x, const Axes& axes = {}, Keep keep = Keep::no);
/// Maximum; its gradient is divided equally among equal maxima.
Value max(Value x, const Axes& axes = {}, Keep keep = Keep::no);
/// Returns the int64 index of the first maximum along an axis, which is removed.
Value argmax(Value x, std::int64_t axis);
/// Sums x over the axes along which `shape` was broadcast, to that shape.
/// @param into  memory for the result, or empty
Value sum_to(Value x, const Shape& shape, const Value& into = {});

// ---- matmul/
/// Returns op(a) op(b), op being the transpose if asked for.
/// @param a  op(a) is [..., M, K]  @param b  op(b) is [..., K, N]
/// @return [..., M, N]; leading axes are equal, or one side has none and is used with all of the other's
Value matmul(Value a, Value b, Transpose transpose_a = Transpose::no, Transpose transpose_b = Transpose::no, const Value& into = {});
/// Computes sum += op(a) op(b) in the memory of the sum; float32.
/// @param sum  of the product's shape  @return the sum after the addition
Value add_matmul(const Value& sum, Value a, Value b, Transpose transpose_a = Transpose::no, Transpose transpose_b = Transpose::no);

// ---- convolution/, functions/conv1d.cpp
struct Convolution {
  Pair stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
};
/// Two-dimensional cross-correlation.
/// @param x  [N, H, W, C]  @param w  [R, S, C / groups, K]  @return [N, P, Q, K]
Value conv2d(Value x, Value w, const Convolution& c = {});
/// Gradient of conv2d for its input, of shape `x_shape`.
Value conv2d_input_gradient(Value dy, Value w, const Shape& x_shape, const Convolution& c = {});
/// Gradient of conv2d for its weights, of shape `w_shape`.
/// @param into  memory for the result, or empty
Value conv2d_weight_gradient(Value dy, Value x, const Shape& w_shape, const Convolution& c = {}, const Value& into = {});
/// Adds the gradient of conv2d for its weights to `sum`, in its memory.
/// @param sum  of the weights' shape  @return the sum after the addition
Value add_conv2d_weight_gradient(const Value& sum, Value dy, Value x, const Convolution& c = {});
struct Convolution1d {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
/// Cross-correlation along time.
/// @param x  [N, T, C]  @param w  [R, C / groups, K]  @return [N, P, K]
Value conv1d(Value x, Value w, const Convolution1d& c = {});

// ---- pooling/
struct Window {
  Pair kernel{2, 2}, stride{2, 2}, padding{0, 0}, dilation{1, 1};
  bool ceil_mode = false;     // include a last, partial window
  bool count_padding = true;  // averages divide by the full window
};
/// Pooling of x [N, H, W, C] over windows; returns [N, P, Q, C].
Value max_pool2d(Value x, const Window& window);
Value avg_pool2d(Value x, const Window& window);
/// Averages over windows that split H x W evenly into `extents`, by PyTorch's rule.
Value adaptive_avg_pool2d(Value x, const Pair& extents);

// ---- normalisation/
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

// ---- normalisation/softmax.cpp, loss/cross_entropy.cpp
/// y[i] = exp(x[i] - max x) / sum_j exp(x[j] - max x) along an axis.
Value softmax(Value x, int axis = -1);
Value log_softmax(Value x, int axis = -1);
/// Reduction of the losses of rows.
enum class LossReduction { mean, sum };
/// Cross-entropy of softmax(logits).
/// @param logits  [N, C]  @param labels  int32 or int64 [N], or probabilities, float [N, C]  @param smoothing  share of 1 / C in the targets
Value cross_entropy(Value logits, Value labels, double smoothing = 0, LossReduction reduction = LossReduction::mean);
/// Sum of the cross-entropies of rows whose label is 0 or more; negative labels are padding.
/// @param labels  int32 or int64 [N]
Value cross_entropy_of_labelled(Value logits, Value labels, double smoothing = 0);

// ---- attention/
/// Causal::no: queries see later keys too.
enum class Causal { no, yes };
/// Options of attention.
struct Attention {
  Value bias = {};                   // added to the scores: float32 [N, H, T, S], any extent of which may be 1; empty: none
  Causal causal = Causal::no;        // yes: query i sees keys 0..i + S - T, so that the last query sees all keys, as with a cache
  double dropout = 0;                // share of the weights that is zeroed; the others are scaled by 1 / (1 - dropout)
  std::optional<double> scale = {};  // of the scores; none: 1 / sqrt(E)
};
/// softmax(scale query key^T + bias) value for each head. It and its gradients take memory linear in T and S: score matrices are stored only for a gradient of
/// the bias and for second derivatives. A query that sees no key, or whose biases are all -infinity, gives zeros; biases that are equal and finite do not,
/// however low. Which weights drop out depends on sample, head, query and key alone.
/// @param query  [N, T, H, E]  @param key  [N, S, H, E]  @param value  [N, S, H, V], all of one floating-point type
/// @return [N, T, H, V]
/// Source: T. Dao et al., FlashAttention, 2022
Value attention(Value query, Value key, Value value, Attention how = {});

// ---- loss/ctc.cpp: connectionist temporal classification, PyTorch's ctc_loss
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

// ---- recurrent/: a recurrent layer over whole sequences, in one direction
// Legend: N sequences of T steps, H hidden size. `weight` [H, G H] multiplies the hidden state; gates are in PyTorch's order.
enum class Reverse { no, yes };  // yes: each sequence is read from its last step to its first
/// Inputs of a recurrent layer, without its parameters.
struct Sequences {
  Value x;             // float32 [N, T, G H]: the inputs times their weight
  Value lengths = {};  // int64 [N], 0..T: later steps are not read, and their outputs are 0; empty: all have T steps
  Reverse reverse = Reverse::no;
};
/// Hidden and cell state, float32 [N, H] each; empty: zeros.
struct LstmState {
  Value h = {}, c = {};
};
struct LstmResult {
  Value y;          // [N, T, H]: hidden state after each step
  LstmState state;  // after each sequence's last step
};
/// i, f, o = sigmoid, g = tanh of (x + h weight + bias);  c' = f c + i g;  h' = o tanh(c').
/// @param weight  [H, 4 H]  @param bias  [4 H], sum of the input's and the hidden state's bias; gates in order i, f, g, o
/// A length out of range counts as 0, and the host's next read throws.
/// Source: S. Hochreiter, J. Schmidhuber, Long short-term memory, 1997; F. A. Gers et al., Learning to forget, 2000
LstmResult lstm(Sequences in, Value weight, Value bias, LstmState start = {});
struct GruParameters {
  Value weight;             // [H, 3 H], gates in order r, z, n
  Value bias, hidden_bias;  // [3 H]: of the input, and of the hidden state; r scales the latter with its product
};
struct GruResult {
  Value y, h;  // [N, T, H], [N, H]
};
/// r, z = sigmoid(x + bias + h weight + hidden_bias);  n = tanh(x + bias + r (h weight + hidden_bias));  h' = (1 - z) n + z h.
/// @param start  float32 [N, H]; empty: zeros. Lengths are as for lstm.
/// Source: K. Cho et al., Learning phrase representations using RNN encoder-decoder, 2014, in PyTorch's form
GruResult gru(Sequences in, GruParameters parameters, Value start = {});

// ---- random/: drawn from the session's random state; the same bits in every interpreter
// Numbers are keyed by the place of their sample in the epoch, so that shards and micro-batches draw what the whole batch does.
// @param sample_axis  axis of the samples; kNoSampleAxis if the numbers belong to no sample
constexpr int kNoSampleAxis = -1;
/// Zeroes a share `rate` of x and scales the rest by 1 / (1 - rate).
Value dropout(Value x, double rate, int sample_axis = 0);
Value random_uniform(Session& session, const Shape& shape, double low = 0, double high = 1, int sample_axis = 0);
Value random_normal(Session& session, const Shape& shape, double mean = 0, double deviation = 1, int sample_axis = 0);
/// Returns the random state of trip `count` (int64 []) of a loop.
Value fold_in(Value state, Value count);

// ---- update/: updates of optimizers by PyTorch's formulas, in place, over all parameters of a slab
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

// ---- update/sparse_rows.cpp: row gradients, and updates of those rows of a table alone
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

// ---- update/clip.cpp: the norm of gradients that lie in slabs
/// Sums the squares of the elements that count, in pages that have a row.
/// @param gradients  float32 [n]  @param pages  as in Update
/// @return float32 [256], whose sum is the squared norm
Value page_squares(Value gradients, Value pages);
/// Scales in place: gradients *= min(1, max_norm / (norm + 1e-6)).
/// @param squares  float32 [k], of all slabs  @return the norm, float32 []
/// @throws UsageError if max_norm is not above 0
Value clip_pages(const Value& gradients, Value pages, Value squares, double max_norm);

// ---- operators
inline Value operator+(Value a, Value b) { return add(std::move(a), std::move(b)); }
inline Value operator-(Value a, Value b) { return subtract(std::move(a), std::move(b)); }
inline Value operator*(Value a, Value b) { return multiply(std::move(a), std::move(b)); }
inline Value operator/(Value a, Value b) { return true_divide(std::move(a), std::move(b)); }
inline Value operator-(Value x) { return negate(std::move(x)); }
Value operator+(Value x, Number number);
Value operator-(Value x, Number number);
Value operator*(Value x, Number number);
Value operator/(Value x, Number number);
Value operator+(Number number, Value x);
Value operator-(Number number, Value x);
Value operator*(Number number, Value x);
Value operator/(Number number, Value x);

}  // namespace gemel
