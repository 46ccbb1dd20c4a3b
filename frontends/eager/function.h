// Custom functions: an operation with its own gradient, as torch.autograd.Function.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/gradients/autograd.h"
#include "frontends/eager/tensor.h"

namespace gemel::eager {

/// What a custom function hands from its forward to its backward.
class Context {
 public:
  /// Called in forward. Inputs and outputs keep their histories, so that gradients can be differentiated.
  void save_for_backward(Tensors tensors) { saved_ = std::move(tensors); }
  /// In backward: what was saved, in order. @throws UsageError where one was changed in place since
  const Tensors& saved() const { return saved_; }
  /// Whether input i's gradient is asked for; without need backward may return an undefined tensor for it.
  bool needs_input_grad(std::size_t i) const { return needs_.at(i); }

 private:
  friend struct Function;
  friend class CustomGradient;
  Tensors saved_;
  std::vector<bool> needs_;
};

/// Example: const Function square{"Square",
///   [](Context& c, const Tensors& x) { c.save_for_backward({x[0]}); return Tensors{x[0] * x[0]}; },
///   [](const Context& c, const Tensors& dy) { return Tensors{dy[0] * c.saved()[0] * 2}; }};
/// Both run when they are called, also while a graph is captured: what they apply becomes part of it.
struct Function {
  std::string name;
  /// Runs unrecorded. Inputs are detached.
  std::function<Tensors(Context&, const Tensors& inputs)> forward;
  /// Gradients of the inputs, one each (undefined: none), from those of the outputs (zeros where none arrived).
  std::function<Tensors(const Context&, const Tensors& output_gradients)> backward;

  /// @throws UsageError without inputs; in the backward pass, a count or a spec that differs from the inputs'
  Tensors operator()(const Tensors& inputs) const;
};

}  // namespace gemel::eager
