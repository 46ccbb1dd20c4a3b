#include "frontends/eager/grad.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/autograd.h"
#include "engine/gradients/row_gradient.h"
#include "engine/parameters/parameter_slab.h"

namespace gemel::eager {
namespace {

/// The seeds of a pass; empty where ones are meant.
Values checked_seeds(const char* op, const Tensors& outputs, const Tensors& gradients) {
  if (!gradients.empty() && gradients.size() != outputs.size())
    throw UsageError(fmt::format("{}: {} gradients for {} tensors; accepted: as many, or none", op, gradients.size(), outputs.size()));
  bool all_ones = true;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool given = !gradients.empty() && gradients[i].defined();
    all_ones = all_ones && !given;
    if (!outputs[i].requires_grad()) throw UsageError(fmt::format("{}: tensor {} does not require grad and was not computed from one that does", op, i));
    if (!given && outputs[i].numel() != 1)
      throw UsageError(
          fmt::format("{}: grad can be implicitly created only for scalar outputs, tensor {} is {}; accepted: one element, "
                      "or a gradient of its shape",
                      op, i, gemel::to_string(outputs[i].shape())));
  }
  if (all_ones) return {};
  Values seeds = values_of(gradients);
  for (std::size_t i = 0; i < seeds.size(); ++i)
    if (!seeds[i]) seeds[i] = gemel::full(outputs[i].session(), {outputs[i].shape(), outputs[i].dtype()}, 1);
  return seeds;
}

Tape tape_of(bool retain_graph, bool create_graph) {
  if (create_graph) return Tape::extend;
  return retain_graph ? Tape::retain : Tape::release;
}

/// While a graph is captured, what is added to grad() is a name in it: no run of the graph would change that.
void check_inside(const std::vector<std::shared_ptr<Node>>& leaves, const Session& session) {
  const bool outside = std::ranges::any_of(leaves, [](const auto& leaf) { return !leaf->symbolic && !leaf->frozen; });
  if (session.capturing() && outside)
    throw UsageError(
        "backward: a graph is captured, and grad() of a tensor from outside of it would not change when the graph runs; accepted: grad(), whose "
        "results the captured function returns or gives to an optimizer's apply_updates");
}

}  // namespace

void add_to(Value& sum, Value more) {
  if (sum && sum.storage() == more.storage()) return;  // it was added there
  if (!sum || row_values(sum)) {
    accumulate(sum, std::move(more));
    return;
  }
  more = to_dense(std::move(more));
  if (sum.wants_gradient() || more.wants_gradient()) {
    sum = gemel::add(sum, std::move(more));
  } else {
    assign(sum, gemel::add(sum, std::move(more)));
  }
}

void backward(const Tensors& tensors, const Tensors& gradients, const BackwardOptions& options) {
  Values seeds = checked_seeds("backward", tensors, gradients);
  const Values outputs = values_of(tensors);
  const auto leaves = leaves_of(outputs);
  if (!outputs.empty()) check_inside(leaves, outputs[0].session());
  Values inputs, into;
  std::vector<bool> adds;
  for (const auto& node : leaves) {
    inputs.push_back(Value().with_node(node, 0));
    const Value place = options.create_graph ? Value() : gradient_place(inputs.back());
    adds.push_back(place && node->accumulated && node->accumulated.storage() == place.storage() && !node->accumulated.node());
    into.push_back(node->accumulated && !adds.back() ? Value() : place);
  }
  gradient(outputs, inputs, std::move(seeds),
           {.tape = tape_of(options.retain_graph, options.create_graph),
            .take =
                [&](std::size_t i, const Value& found) {
                  add_to(leaves[i]->accumulated, found);
                  if (leaves[i]->accumulated.node()) outputs[0].session().release_at_end(leaves[i]);  // its history leads to the leaf
                  if (options.accumulated) options.accumulated(*leaves[i]);
                },
            .into = into,
            .adds = adds});
}

Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options) {
  Values seeds = checked_seeds("grad", outputs, options.grad_outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].requires_grad()) throw UsageError(fmt::format("grad: input {} does not require grad; accepted: tensors that do", i));
  const Values found = gradient(values_of(outputs), values_of(inputs), std::move(seeds), tape_of(options.retain_graph, options.create_graph));
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!found[i] && !options.allow_unused)
      throw UsageError(
          fmt::format("grad: input {} appears to not have been used in the graph; accepted: allow_unused, if this is "
                      "the desired behavior",
                      i));
  return tensors_of(found);
}

}  // namespace gemel::eager
