// The operators as typed functions. Arguments come by value where their memory may be taken over: move what you no longer
// need. Legend: images are [N, H, W, C]; convolution weights [R, S, C / groups, K]; linear weights [in, out].
// Errors: what an operator's record refuses is a ShapeError that names the operator, what was given and what is accepted.
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
/// A tensor of one value.
Value full(Session& session, const Spec& spec, double value);
/// The same contents in memory of its own.
Value copy(Value x);
/// destination = source, in place. Shapes and types are equal; the destination is detached first.
void assign(const Value& destination, Value source);
/// destination[..., start + k, ...] = source[..., k, ...], in place, for all k along an axis; the destination is detached first. Rows that do not
/// all lie in it are an error that the next read tells. @param start  int32 or int64, one element
void write_rows(const Value& destination, Value start, Value source, std::int64_t axis = 0);

// ---- shape/, index/
/// The same elements, in the same order, under another shape; shares memory. One extent may be -1.
Value reshape(Value x, const std::vector<std::int64_t>& shape);
Value reshape(Value x, const Shape& shape);
inline Value reshape(Value x, std::initializer_list<std::int64_t> shape) { return reshape(std::move(x), std::vector<std::int64_t>(shape)); }
/// Repeats along axes of extent 1, and along new leading axes.
Value broadcast_to(Value x, const Shape& shape);
/// y's axis i is x's axis order[i].
Value transpose(Value x, const Axes& order);
/// Joins along an axis; all other extents are equal.
Value concatenate(Values xs, std::int64_t axis);
/// Cuts along an axis into parts of these extents, which add up to it.
Values split(Value x, const std::vector<std::int64_t>& extents, std::int64_t axis);
/// Elements starts[k], starts[k] + steps[k], ... below stops[k] of each axis. Starts and stops below 0 count from the end.
Value slice(Value x, const Axes& starts, const Axes& stops, const Axes& steps = {});
/// Gradient of slice, of the cut tensor's `shape`: zeros, with dy where slice read. Starts are 0 or more.
Value slice_gradient(Value dy, const Shape& shape, const Axes& starts, const Axes& steps);
/// `value` before and behind each axis.
Value pad(Value x, const Axes& before, const Axes& after, double value = 0);
/// y[..., i..., ...] = x[..., indices[i...], ...]: the axis is replaced by the axes of `indices` (int32 or int64).
Value gather(Value x, Value indices, std::int64_t axis = 0);
/// Gradient of gather, of the indexed tensor's `shape`: zeros, with dy added where gather read. Deterministic.
/// @param into  memory for it, or empty
Value gather_gradient(Value dy, Value indices, const Shape& shape, std::int64_t axis = 0, const Value& into = {});
/// x with updates[..., i..., ...] added at x[..., indices[i...], ...]; the inverse of gather. Deterministic.
Value scatter_add(Value x, Value indices, Value updates, std::int64_t axis = 0);
/// A new last axis with 1 at the index, 0 elsewhere.
Value one_hot(Value indices, std::int64_t classes, DType dtype = DType::float32);
/// Rows of `weight` [V, D] by indices [...]: [..., D].
Value embedding(Value weight, Value indices);

// ---- elementwise/, of two inputs: element by element, with broadcasting; both sides of one element type
Value add(Value a, Value b);
Value subtract(Value a, Value b);
Value multiply(Value a, Value b);
Value divide(Value a, Value b);
Value maximum(Value a, Value b);
Value minimum(Value a, Value b);
/// a to the power of b.
Value power(Value a, Value b);
/// a / b; integers and booleans are divided as float32.
Value true_divide(Value a, Value b);
/// A number beside a tensor.
struct Number {
  template <class T>
  requires std::is_arithmetic_v<T> Number(T number)
      : value(static_cast<double>(number)), whole(std::is_integral_v<T> ? static_cast<std::int64_t>(number) : 0), is_fraction(std::is_floating_point_v<T>) {}
  double value;
  std::int64_t whole;  // exactly, of an integer
  bool is_fraction;    // of a floating type, whatever its value
};
/// x, and a tensor of one element for the number, both of the type that PyTorch gives them: x's, which is float32 for integers beside a fraction, and
/// int64 for booleans beside an integer. So both front ends understand x * 0.5.
/// @throws UsageError an integer that the integers of this type do not hold
std::pair<Value, Value> alike(Value x, Number number);
/// Comparisons give bool.
Value equal(Value a, Value b);
Value not_equal(Value a, Value b);
Value less(Value a, Value b);
Value less_equal(Value a, Value b);
Value greater(Value a, Value b);
Value greater_equal(Value a, Value b);
Value logical_and(Value a, Value b);
Value logical_or(Value a, Value b);
/// a where the condition (bool) holds, else b.
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
/// Floating to integer truncates; to bool is "not 0".
Value cast(Value x, DType dtype);
Value relu(Value x);
Value relu6(Value x);
Value silu(Value x);
Value hard_swish(Value x);
/// x Phi(x), exact (with erf).
Value gelu(Value x);
/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), GPT-2's. Source: D. Hendrycks, K. Gimpel, Gaussian error linear units, 2016
Value gelu_tanh(Value x);
/// Gradients of activations: dy times the derivative. @param y the output that relu and relu6 keep @param x the input
Value relu_gradient(Value dy, Value y);
Value relu6_gradient(Value dy, Value y);
Value silu_gradient(Value dy, Value x);
Value hard_swish_gradient(Value dy, Value x);
Value gelu_gradient(Value dy, Value x);
Value gelu_tanh_gradient(Value dy, Value x);
Value clamp_gradient(Value dy, Value x, double low, double high);

// ---- reduce/
/// Over axes (all where none are given).
Value sum(Value x, const Axes& axes = {}, Keep keep = Keep::no);
Value mean(Value x, const Axes& axes = {}, Keep keep = Keep::no);
/// Its gradient is shared equally among equal maxima.
Value max(Value x, const Axes& axes = {}, Keep keep = Keep::no);
/// int64 index of the first maximum along an axis, which is dropped.
Value argmax(Value x, std::int64_t axis);
/// Undoes a broadcast: sums x over the axes along which `shape` was repeated.
Value sum_to(Value x, const Shape& shape, const Value& into = {});

// ---- matmul/
/// op(a) op(b). @param a [..., M, K] @param b [..., K, N] (before transposing) @return [..., M, N]; leading axes are equal,
/// or one side has none and serves them all
Value matmul(Value a, Value b, Transpose transpose_a = Transpose::no, Transpose transpose_b = Transpose::no, const Value& into = {});
/// sum += op(a) op(b), in its memory; float32. @param sum  shaped as the product  @return it, as it is then
Value add_matmul(const Value& sum, Value a, Value b, Transpose transpose_a = Transpose::no, Transpose transpose_b = Transpose::no);

// ---- convolution/, functions/conv1d.cpp
struct Convolution {
  Pair stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
};
/// Cross-correlation. @param x [N, H, W, C] @param w [R, S, C / groups, K] @return [N, P, Q, K]
Value conv2d(Value x, Value w, const Convolution& c = {});
/// Gradient of conv2d for its input, of shape `x_shape`.
Value conv2d_input_gradient(Value dy, Value w, const Shape& x_shape, const Convolution& c = {});
/// Gradient of conv2d for its weights, of shape `w_shape`.
Value conv2d_weight_gradient(Value dy, Value x, const Shape& w_shape, const Convolution& c = {}, const Value& into = {});
/// Adds it to `sum`, in its memory. @param sum  shaped as the weights  @return it, as it is then
Value add_conv2d_weight_gradient(const Value& sum, Value dy, Value x, const Convolution& c = {});
struct Convolution1d {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
/// Cross-correlation along time. @param x [N, T, C] @param w [R, C / groups, K] @return [N, P, K]
Value conv1d(Value x, Value w, const Convolution1d& c = {});

// ---- pooling/
struct Window {
  Pair kernel{2, 2}, stride{2, 2}, padding{0, 0}, dilation{1, 1};
  bool ceil_mode = false;     // count a last, partial window
  bool count_padding = true;  // averages divide by the whole window
};
Value max_pool2d(Value x, const Window& window);
Value avg_pool2d(Value x, const Window& window);
/// Mean over windows that split H x W evenly into `extents`, as PyTorch cuts them.
Value adaptive_avg_pool2d(Value x, const Pair& extents);

// ---- normalisation/
/// What a normalisation multiplies by and adds.
struct Scaling {
  const Value &gamma, &beta;
};
/// Of batch_norm, moved in place: mean and variance [C], and the batches seen, int64 [].
struct RunningStatistics {
  const Value &mean, &var, &batches;
};
/// Normalises each channel (last axis) by the batch's mean and biased variance, and moves the running statistics:
/// running += momentum (batch - running), with the unbiased variance; batches += 1.
Value batch_norm(Value x, const Scaling& scaling, const RunningStatistics& running, double momentum = 0.1, double eps = 1e-5);
/// The same with the running mean and variance [C], unchanged.
Value batch_norm_inference(Value x, const Scaling& scaling, Value running_mean, Value running_var, double eps = 1e-5);
/// Of each channel [C] of x [..., C]: its mean, and the sum of its squared deviations from it. Those of parts of a batch can be merged, and
/// batch_norm_inference then applies them, with gradients for x by both ways.
struct Moments {
  Value mean, squares;
};
Moments channel_moments(Value x);
/// Of the parts of a batch, one a row: what channel_moments gives [parts, C], and their rows, int64 [parts].
struct PartMoments {
  Value mean, squares, rows;
};
/// Of a batch: mean and biased variance [C].
struct BatchStatistics {
  Value mean, var;
};
/// Moves the running statistics as batch_norm does with the whole batch.
BatchStatistics merge_moments(const PartMoments& parts, const RunningStatistics& running, double momentum = 0.1);
/// Normalises over the last axes, as many as gamma has.
Value layer_norm(Value x, Value gamma, Value beta, double eps = 1e-5);

// ---- normalisation/softmax.cpp, loss/cross_entropy.cpp
/// y[i] = exp(x[i] - max x) / sum_j exp(x[j] - max x) along an axis.
Value softmax(Value x, int axis = -1);
Value log_softmax(Value x, int axis = -1);
/// What becomes of the rows' losses.
enum class LossReduction { mean, sum };
/// Cross-entropy of softmax(logits).
/// @param logits [N, C] @param labels int32 or int64 [N], or float [N, C] probabilities @param smoothing mixes in 1 / C
Value cross_entropy(Value logits, Value labels, double smoothing = 0, LossReduction reduction = LossReduction::mean);
/// The sum over rows, without those whose label is below 0: padding. @param labels int32 or int64 [N]
Value cross_entropy_of_labelled(Value logits, Value labels, double smoothing = 0);

// ---- attention/
/// Whether queries see later keys too.
enum class Causal { no, yes };
/// How attention weighs values, besides by queries and keys.
struct Attention {
  Value bias = {};                   // added to the scores: float32 [N, H, T, S], any extent of which may be 1; empty: none
  Causal causal = Causal::no;        // yes: query i sees keys 0..i + S - T alone, the last query all of them, as with cached keys
  double dropout = 0;                // share of the weights that is zeroed; the others are scaled by 1 / (1 - dropout)
  std::optional<double> scale = {};  // of the scores; none: 1 / sqrt(E)
};
/// softmax(scale query key^T + bias) value, head by head, also its gradients in memory linear in T and S: no matrix of scores is stored, but for a
/// gradient of the bias and for second derivatives. A query that sees no key, or whose bias is -infinity for all, gives zeros; with equal
/// biases, however low, it weighs all keys that it sees. Weights that drop out depend on sample, head, query and key alone.
/// @param query [N, T, H, E] @param key [N, S, H, E] @param value [N, S, H, V], floating, of one type @return [N, T, H, V]
/// Source: T. Dao et al., FlashAttention, 2022
Value attention(Value query, Value key, Value value, Attention how = {});

// ---- loss/ctc.cpp: connectionist temporal classification, PyTorch's ctc_loss
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

// ---- recurrent/: a recurrent layer over whole sequences, in one direction
// Legend: N sequences of T steps, H hidden numbers. `weight` [H, G H] multiplies the hidden state; gates lie in PyTorch's order.
enum class Reverse { no, yes };  // yes: each sequence is read from its end to its first step
/// What a recurrent layer reads, besides its parameters.
struct Sequences {
  Value x;             // float32 [N, T, G H]: the inputs times their weight
  Value lengths = {};  // int64 [N], 0..T: what follows is not read, and its outputs are 0; empty: all have T steps
  Reverse reverse = Reverse::no;
};
/// Hidden and cell state float32 [N, H]; empty: zeros.
struct LstmState {
  Value h = {}, c = {};
};
struct LstmResult {
  Value y;          // [N, T, H]: the hidden state after each step
  LstmState state;  // after each sequence's last step
};
/// i, f, o = sigmoid, g = tanh of (x + h weight + bias);  c' = f c + i g;  h' = o tanh(c').
/// @param weight [H, 4 H] @param bias [4 H]  that of the inputs and that of the hidden state together; order i, f, g, o
/// A length out of range counts as 0 and is told by the next read.
/// Source: S. Hochreiter, J. Schmidhuber, Long short-term memory, 1997; F. A. Gers et al., Learning to forget, 2000
LstmResult lstm(Sequences in, Value weight, Value bias, LstmState start = {});
/// The same results, but for their rounding, without a kernel of its own: step after step in the operators of the formula. No length is refused: below 0
/// counts as 0, above T as T.
LstmResult lstm_steps(const Sequences& in, const Value& weight, const Value& bias, LstmState start = {});
struct GruParameters {
  Value weight;             // [H, 3 H], order r, z, n
  Value bias, hidden_bias;  // [3 H]: of the inputs, and of the hidden state, which r scales with its product
};
struct GruResult {
  Value y, h;  // [N, T, H], [N, H]
};
/// r, z = sigmoid(x + bias + h weight + hidden_bias);  n = tanh(x + bias + r (h weight + hidden_bias));  h' = (1 - z) n + z h.
/// @param start  float32 [N, H]; empty: zeros. Lengths as those of lstm.
/// Source: K. Cho et al., Learning phrase representations using RNN encoder-decoder, 2014, in PyTorch's form
GruResult gru(Sequences in, GruParameters parameters, Value start = {});

// ---- random/: drawn from the session's random state; the same bits in every interpreter
// Numbers are keyed by their sample's place in the epoch, so that shards and micro-batches draw what the whole batch does.
// @param sample_axis  the axis that counts samples; kNoSampleAxis where the numbers belong to none of them
constexpr int kNoSampleAxis = -1;
/// Zeroes a share `rate` of x, scales the rest by 1 / (1 - rate).
Value dropout(Value x, double rate, int sample_axis = 0);
Value random_uniform(Session& session, const Shape& shape, double low = 0, double high = 1, int sample_axis = 0);
Value random_normal(Session& session, const Shape& shape, double mean = 0, double deviation = 1, int sample_axis = 0);
/// Another random state for trip `count` (int64 []) of a loop.
Value fold_in(Value state, Value count);

// ---- update/: optimizers' updates, in place, PyTorch's formulas, over all parameters that lie in one slab
/// What every update reads besides the optimizer's slots.
struct Update {
  Value parameters, gradients;  // float32 [n]: whole slabs
  Value hyper;                  // float32 [rows, 2] {rate, weight decay}; adam's: [rows, 4], and {1 - beta1^t, 1 - beta2^t}.
                                // Tensors, so that a captured step can be fed anew
  Value pages;                  // int32 [pages, 2] {row of hyper, elements that count}; row -1: parameters and slots stay as they are
};
void sgd_update(Update u);
void momentum_update(Update u, const Value& velocity, double momentum, bool nesterov);
struct AdamUpdate {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool decoupled = false;  // AdamW: decay shrinks the parameter instead of joining the gradient
};
void adam_update(Update u, const Value& mean, const Value& variance, const AdamUpdate& adam);
struct RmspropUpdate {
  double alpha = 0.99, eps = 1e-8, momentum = 0;
};
/// `velocity` is looked at only where the momentum is not 0; else it may be empty.
void rmsprop_update(Update u, const Value& variance, const Value& velocity, const RmspropUpdate& rmsprop);

// ---- update/sparse_rows.cpp: of rows that are given with their indices, and updates of those rows of a table alone
/// Each row once, in ascending order, with the sum of what was given for it, added in the order given. Where a row comes up again the index
/// is -1 and the values are 0, so that shapes do not depend on contents. What is whole has each row once as it is.
RowValues sum_rows(RowValues rows);
/// What an update of some rows of a table reads besides the optimizer's slots, which are tables too.
struct RowUpdate {
  Value parameters;  // float32 [rows, width]
  RowValues sums;    // as sum_rows gives them
  Value hyper;       // as in Update, without weight decay
  std::int64_t group = 0;
};
void sgd_rows_update(RowUpdate u);
/// The moments of other rows stay as they are. Source: torch.optim.SparseAdam, 1.13
void adam_rows_update(RowUpdate u, const Value& mean, const Value& variance, const AdamUpdate& adam);

// ---- update/clip.cpp: the norm of gradients that lie in slabs
/// Sums of squares of the elements that count, in pages that have a row. @param gradients  float32 [n] @param pages  as in Update
/// @return float32 [256]: their sum is the squared norm
Value page_squares(Value gradients, Value pages);
/// gradients *= min(1, max_norm / (norm + 1e-6)) in place. @param squares  float32 [k], of all slabs @return the norm, float32 []
/// @throws UsageError for a largest norm that is not above 0
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
