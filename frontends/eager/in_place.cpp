// In-place operations on tensors: the result is computed separately, then written to the memory, and the handle takes the new history.
#include <fmt/format.h>

#include "engine/base/error.h"
#include "frontends/eager/tensor.h"

namespace gemel::eager {
namespace {

/// The tensor that a chain of views looks at.
const Node* viewed(const Node* node) {
  while (node && node->op && node->op->views && !node->released) node = node->inputs[static_cast<std::size_t>(*node->op->views)].value.node().get();
  return node;
}

}  // namespace

void Tensor::check_in_place(const char* op) const {
  const Value& x = value();
  if (!x.session().gradients_enabled() || !x.node()) return;
  const Node* root = viewed(x.node().get());
  if (root && root->op == nullptr)
    throw UsageError(
        fmt::format("{}: {} leaf variable that requires grad is being used in an in-place operation, {}; accepted: "
                    "inside a NoGrad scope, or on its detach()",
                    op, is_leaf() ? "a" : "a view of a", gemel::to_string(x.spec())));
}

Tensor Tensor::overwrite(const char* op, Value contents) const {
  Value& x = state_->value;
  if (contents.spec() != x.spec())
    throw ShapeError(fmt::format("{}: the result is {}; accepted: {}, what the tensor is", op, gemel::to_string(contents.spec()), gemel::to_string(x.spec())));
  const auto node = contents.node();
  const int output = contents.output();
  assign(x, std::move(contents));
  if (x.session().gradients_enabled()) {
    const auto before = x.node();
    x = x.with_node(node, output);
    if (state_->retains) keep_retaining(before);
  }
  state_->version = version_of(x);
  if (node && x.node() == node) x.storage()->recorded = state_->version;
  return *this;
}

Tensor Tensor::copy_(const Tensor& source) const {
  check_in_place("copy_");
  // A copy even where nothing is to be changed: the source's own node, a leaf perhaps, must not become this tensor's.
  return overwrite("copy_", gemel::copy(gemel::broadcast_to(source.to(dtype()), shape())));
}

Tensor Tensor::fill_(double number) const {
  check_in_place("fill_");
  return overwrite("fill_", gemel::full(session(), value().spec(), number));
}

Tensor Tensor::changed_in_place(const char* op, Tensor (*compute)(Operand, Operand), const Operand& other) const {
  check_in_place(op);
  // The gradient of `other` may need what the tensor held before.
  const bool keeps_old = other.wants_gradient() && session().gradients_enabled();
  return overwrite(op, compute(keeps_old ? clone() : *this, other));
}

Tensor Tensor::add_(const Operand& other, double alpha) const {
  return changed_in_place(
      "add_", [](Operand a, Operand b) { return binary(gemel::add, std::move(a), std::move(b)); }, alpha == 1 ? other : other.times(alpha));
}
Tensor Tensor::sub_(const Operand& other, double alpha) const {
  return changed_in_place(
      "sub_", [](Operand a, Operand b) { return binary(gemel::subtract, std::move(a), std::move(b)); }, alpha == 1 ? other : other.times(alpha));
}
Tensor Tensor::mul_(const Operand& other) const {
  return changed_in_place(
      "mul_", [](Operand a, Operand b) { return binary(gemel::multiply, std::move(a), std::move(b)); }, other);
}
Tensor Tensor::div_(const Operand& other) const { return changed_in_place("div_", true_divide, other); }

}  // namespace gemel::eager
