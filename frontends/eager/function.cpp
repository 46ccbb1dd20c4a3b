#include "frontends/eager/function.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "frontends/eager/grad.h"

namespace gemel::eager {

/// The rule of one application: calls the user's backward with what forward saved.
class CustomGradient {
 public:
  CustomGradient(const Function& function, Context context, Node& node, const Values& inputs, const Values& outputs)
      : function_(function), context_(std::move(context)) {
    for (const Tensor& tensor : context_.saved_) keep(tensor, node, inputs, outputs);
    context_.saved_.clear();
  }

  Values operator()(const Backward& b) const {
    Context context = context_;
    context.needs_.clear();
    for (int i = 0; i < b.input_count(); ++i) context.needs_.push_back(b.wants(i));
    for (const Saved& saved : saved_) context.saved_.push_back(look_up(saved, b));
    Tensors gradients;
    for (int o = 0; o < b.output_count(); ++o) gradients.push_back(b.has_gradient(o) ? b.gradient(o) : gemel::full(b.session(), b.output_spec(o), 0));
    const Tensors found = function_.backward(context, gradients);
    check(found, b);
    return values_of(found);
  }

 private:
  enum class Kind { input, output, other };
  struct Saved {
    Kind kind;
    int index;
    Node::Saved other;
  };

  /// An input or output is kept by the node, as the engine's own operators do; anything else here.
  void keep(const Value& value, Node& node, const Values& inputs, const Values& outputs) {
    const auto same = [&value](const Value& v) { return v.storage() == value.storage() && v.offset() == value.offset() && v.spec() == value.spec(); };
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (same(inputs[i])) {
        node.inputs[i].value = inputs[i];
        return saved_.push_back({Kind::input, static_cast<int>(i), {}});
      }
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (same(outputs[o])) {
        node.outputs[o].value = outputs[o];
        return saved_.push_back({Kind::output, static_cast<int>(o), {}});
      }
    saved_.push_back({Kind::other, 0, {value, version_of(value)}});
  }

  Value look_up(const Saved& saved, const Backward& b) const {
    if (saved.kind == Kind::input) return b.input(saved.index);
    if (saved.kind == Kind::output) return b.output(saved.index);
    const Value& value = saved.other.value;
    if (version_of(value) != saved.other.version)
      throw UsageError(fmt::format("{}: a saved tensor {} was changed in place; accepted: save a copy", function_.name, gemel::to_string(value.spec())));
    return value;
  }

  void check(const Tensors& found, const Backward& b) const {
    if (found.size() != at(b.input_count()))
      throw UsageError(fmt::format("{}: backward gave {} gradients; accepted: {}, one an input", function_.name, found.size(), b.input_count()));
    for (int i = 0; i < b.input_count(); ++i)
      if (found[at(i)].defined() && found[at(i)].shape() != b.input_shape(i))
        throw UsageError(fmt::format("{}: backward gave {} as gradient {}; accepted: {}, the shape of the input", function_.name,
                                     gemel::to_string(found[at(i)].shape()), i, gemel::to_string(b.input_shape(i))));
  }

  Function function_;
  Context context_;
  std::vector<Saved> saved_;
};

namespace {

std::shared_ptr<Node> named_node(const std::string& name, Session& session, const Values& inputs, const Values& outputs) {
  auto record = std::make_shared<OpDef>();
  record->name = name;
  record->doc = "A custom function.";
  auto node = new_node(session, *record, inputs, outputs);
  node->owned = std::move(record);
  return node;
}

}  // namespace

Tensors Function::operator()(const Tensors& tensors) const {
  const Values inputs = values_of(tensors);
  for (const Value& v : inputs)
    if (!v) throw UsageError(name + ": an input is undefined");
  if (inputs.empty()) throw UsageError(name + ": no input is given; accepted: one tensor or more");
  Session& session = inputs[0].session();
  Context context;
  Tensors detached;
  for (const Value& v : inputs) {
    context.needs_.push_back(v.wants_gradient());
    detached.push_back(v.detached());
  }
  Values outputs;
  {
    const NoGrad unrecorded(session);
    outputs = values_of(forward(context, detached));
  }
  for (Value& v : outputs) {
    if (!v) throw UsageError(name + ": forward gave an undefined tensor");
    v = v.detached();
  }
  if (!session.gradients_enabled() || std::none_of(inputs.begin(), inputs.end(), [](const Value& v) { return v.wants_gradient(); })) return tensors_of(outputs);
  if (session.trace().differentiates_by_replay())
    throw UsageError(name +
                     ": a custom function cannot be differentiated where it is applied again from a capture (a conditional, a loop, a pipeline); accepted: "
                     "operators, or inputs that do not require grad");
  const auto node = named_node(name, session, inputs, outputs);
  node->rule = CustomGradient(*this, std::move(context), *node, inputs, outputs);
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (is_floating(outputs[o].dtype())) outputs[o] = outputs[o].with_node(node, static_cast<int>(o));
  return tensors_of(outputs);
}

}  // namespace gemel::eager
