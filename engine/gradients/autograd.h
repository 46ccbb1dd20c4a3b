// Reverse-mode differentiation over recorded nodes. Gradient rules apply public operators, so a backward pass can be differentiated again.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel {

/// Treatment of the history by a backward pass: release it, retain it for another pass, or retain it and record this pass too (extend).
enum class Tape { release, retain, extend };

/// Argument of a gradient rule: one node with the gradients of its outputs.
class Backward {
 public:
  /// For each input: whether its gradient is wanted, and memory for it (`places`) or a tensor to add it to (`sums`), if any.
  struct Wanted {
    std::vector<bool> inputs;
    Values places, sums;
    std::vector<bool> rows = {};  // a row gradient is accepted, whatever the leaf asks for
    std::function<bool(std::size_t input, const Value& left, const Value& right)> postpone = {};
  };
  Backward(std::shared_ptr<Node> node, Values gradients, Wanted wanted, Session& session, Tape tape);
  bool wants(int input) const { return wanted_.inputs[static_cast<std::size_t>(input)]; }
  bool has_gradient(int output) const { return static_cast<bool>(gradients_[static_cast<std::size_t>(output)]); }
  /// Gradient of an output. @throws InternalError if there is none
  const Value& gradient(int output) const;
  /// Saved input or output. @throws InternalError if `gradient_reads` does not declare it; UsageError if it was changed in place since
  Value input(int i) const;
  Value output(int i) const;
  const Spec& input_spec(int i) const { return node_->inputs[static_cast<std::size_t>(i)].value.spec(); }
  const Shape& input_shape(int i) const { return input_spec(i).shape; }
  const Spec& output_spec(int i) const { return node_->outputs[static_cast<std::size_t>(i)].value.spec(); }
  int input_count() const { return static_cast<int>(node_->inputs.size()); }
  int output_count() const { return static_cast<int>(node_->outputs.size()); }
  /// Memory for the gradient of input i, to pass to `apply`; empty if none is given.
  const Value& place(int i) const { return wanted_.places[static_cast<std::size_t>(i)]; }
  /// Tensor that the gradient of input i is to be added to; empty if there is none. A rule may add to it in place, in the operator that computes
  /// the gradient, and return the sum.
  const Value& sum(int i) const { return wanted_.sums[static_cast<std::size_t>(i)]; }
  /// Offers the factors of the gradient of input i, left^T right, both [rows, columns]. @return true if the product is postponed; a rule then returns
  /// an empty value
  bool postponed(int i, const Value& left, const Value& right) const { return wanted_.postpone && wanted_.postpone(static_cast<std::size_t>(i), left, right); }
  /// True if the gradient of input i may be a row gradient: the input is a leaf that asks for one or the caller of the pass accepts one, and the pass
  /// is not recorded.
  bool by_rows(int i) const;
  const Attributes& attributes() const { return node_->attributes; }
  Session& session() const { return session_; }
  Tape tape() const { return tape_; }

 private:
  Value fresh(const Node::Saved& saved, const char* what, int i) const;
  std::shared_ptr<Node> node_;
  Values gradients_;
  Wanted wanted_;
  Session& session_;
  Tape tape_;
};

/// Called with the factors of a gradient left^T right of inputs[index] that has no other contributions.
/// @return true to take over the product: the pass then has no result for this input
using PostponeProduct = std::function<bool(std::size_t index, const Value& left, const Value& right)>;
/// Called when the gradient of inputs[index] is complete. The gradient may be written in place.
using GradientReady = std::function<void(std::size_t index, const Value& gradient)>;

/// Options of a backward pass. Vectors have one entry for each input, or are empty.
struct GradientOptions {
  Tape tape = Tape::release;
  GradientReady take = {};        // receives each result as soon as it is complete; results are then not returned
  GradientReady ready = {};       // called when the computation of a result is enqueued; for a captured pass at every replay. Not with Tape::extend
  Values into = {};               // memory for the results (an empty value: new memory). Not with Tape::extend
  std::vector<bool> adds = {};    // true: add the result to the contents of `into`; `ready` and `take` then receive the sum
  PostponeProduct postpone = {};  // offered products of two matrices. Not with Tape::extend
  std::vector<bool> rows = {};    // true: the result may be a row gradient; it is then not written to `into`
};

/// Gradients of sum(outputs * output_gradients) with respect to inputs.
/// @param output_gradients  one for each output, of its shape (an empty value: zero); an empty list: all ones
/// @return one gradient for each input: empty if none flows, as to a frozen leaf; a row gradient if the leaf asks for one. Results share memory only with
///         `into` and may be written in place
/// @throws UsageError for an input without history, a history already released, a saved tensor that was changed in place, or `ready`, `into` or `postpone`
///         with Tape::extend
/// @throws ShapeError if an output gradient has another shape than its output
Values gradient(const Values& outputs, const Values& inputs, Values output_gradients, const GradientOptions& options);
Values gradient(const Values& outputs, const Values& inputs, Values output_gradients = {}, Tape tape = Tape::release);

/// Order in which a backward pass from `outputs` completes the gradients of `inputs`, as indices of inputs. Inputs that it does not reach come last.
/// Reads histories only, so values may be symbolic.
std::vector<std::size_t> gradient_order(const Values& outputs, const Values& inputs);
/// For each input: the number of rows, with repetitions, that lookups read from it; 0 if `outputs` also use it otherwise, or not at all.
std::vector<std::int64_t> looked_up_rows(const Values& outputs, const Values& inputs);

/// Leaves that the histories of the outputs reach, by ascending node number.
std::vector<std::shared_ptr<Node>> leaves_of(const Values& outputs);

}  // namespace gemel
