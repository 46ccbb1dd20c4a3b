// Reverse-mode differentiation over recorded nodes. Rules are written in public operators, so a pass differentiates again.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel {

/// What becomes of the history: let it go; keep it for another pass; keep it and record this pass too.
enum class Tape { release, retain, extend };

/// A gradient rule's view of one node.
class Backward {
 public:
  /// Of each input: whether its gradient is wanted; memory for it, or a sum that it is to be added to, or neither: empty values.
  struct Wanted {
    std::vector<bool> inputs;
    Values places, sums;
    std::vector<bool> rows = {};  // may be rows, whatever their leaves ask for
    std::function<bool(std::size_t input, const Value& left, const Value& right)> postpone = {};
  };
  Backward(std::shared_ptr<Node> node, Values gradients, Wanted wanted, Session& session, Tape tape);
  bool wants(int input) const { return wanted_.inputs[static_cast<std::size_t>(input)]; }
  bool has_gradient(int output) const { return static_cast<bool>(gradients_[static_cast<std::size_t>(output)]); }
  /// @throws InternalError if none arrived
  const Value& gradient(int output) const;
  /// @throws InternalError if the record does not declare that it is read; UsageError if it was changed in place since
  Value input(int i) const;
  Value output(int i) const;
  const Spec& input_spec(int i) const { return node_->inputs[static_cast<std::size_t>(i)].value.spec(); }
  const Shape& input_shape(int i) const { return input_spec(i).shape; }
  const Spec& output_spec(int i) const { return node_->outputs[static_cast<std::size_t>(i)].value.spec(); }
  int input_count() const { return static_cast<int>(node_->inputs.size()); }
  int output_count() const { return static_cast<int>(node_->outputs.size()); }
  /// Memory for the gradient of input i, for `apply` to fill; empty: it has none of its own to go to.
  const Value& place(int i) const { return wanted_.places[static_cast<std::size_t>(i)]; }
  /// What the gradient of input i will be added to. A rule may do so in its place, with what computes the gradient, and give the sum
  /// instead; empty: there is none.
  const Value& sum(int i) const { return wanted_.sums[static_cast<std::size_t>(i)]; }
  /// Asks whether somebody else computes the gradient of input i, which is left^T right, both [rows, columns]; then a rule gives none.
  bool postponed(int i, const Value& left, const Value& right) const { return wanted_.postpone && wanted_.postpone(static_cast<std::size_t>(i), left, right); }
  /// Whether the gradient of input i may be rows (engine/gradients/row_gradient.h): it is a leaf that asks for them, or of which they are asked, and nobody
  /// differentiates again.
  bool by_rows(int i) const;
  const OpDef& op() const { return *node_->op; }
  const Attributes& attributes() const { return node_->attributes; }
  Session& session() const { return session_; }
  /// Of the pass that is under way.
  Tape tape() const { return tape_; }

 private:
  Value fresh(const Node::Saved& saved, const char* what, int i) const;
  std::shared_ptr<Node> node_;
  Values gradients_;
  Wanted wanted_;
  Session& session_;
  Tape tape_;
};

/// Offered the factors of a gradient left^T right of inputs[index], to which nothing else contributes. @return whether it is taken over:
/// then there is no such result
using PostponeProduct = std::function<bool(std::size_t index, const Value& left, const Value& right)>;
/// Told that the gradient of inputs[index] is complete; it may be written in place.
using GradientReady = std::function<void(std::size_t index, const Value& gradient)>;

struct GradientOptions {
  Tape tape = Tape::release;
  GradientReady take = {};        // gets each result as soon as it is there, which is not returned then
  GradientReady ready = {};       // told as soon as what computes a result is enqueued; of a captured pass at every replay. Not with Tape::extend
  Values into = {};               // memory for the results, one an input (an empty value: of its own), or none at all. Not with Tape::extend
  std::vector<bool> adds = {};    // one for each of `into`, or none: the result is added to what lies there. `ready` and `take` are told of the sum
  PostponeProduct postpone = {};  // of products of two matrices. Not with Tape::extend
  std::vector<bool> rows =
      {};  // one an input, or none: the result may be rows (engine/gradients/row_gradient.h), as of a leaf that asks for them; rows stay out of `into`
};

/// Gradients of sum(outputs * output_gradients) with respect to inputs.
/// @param output_gradients  one for each output (empty: none flows from it); where the list is empty, ones for all
/// @return an empty value where no gradient flows, as to a frozen leaf; rows (engine/gradients/row_gradient.h) where a leaf asks for them. Results share
///         memory with nothing but `into` and may be written in place
/// @throws UsageError an input without history, a history already released, a saved tensor changed in place, `ready`, `into` or `postpone` with Tape::extend
Values gradient(const Values& outputs, const Values& inputs, Values output_gradients, const GradientOptions& options);
Values gradient(const Values& outputs, const Values& inputs, Values output_gradients = {}, Tape tape = Tape::release);

/// The order in which a backward pass from `outputs` completes the gradients of `inputs`, as indices; those that it does not reach
/// come last. Reads histories alone, also of symbolic values.
std::vector<std::size_t> gradient_order(const Values& outputs, const Values& inputs);
/// Of each input the rows that are looked up in it, with repetitions, where `outputs` use it in nothing but lookups; 0 of any other.
std::vector<std::int64_t> looked_up_rows(const Values& outputs, const Values& inputs);

/// The leaves that the outputs' histories reach, by ascending node number.
std::vector<std::shared_ptr<Node>> leaves_of(const Values& outputs);

}  // namespace gemel
