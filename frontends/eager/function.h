// Custom functions: operations with their own gradient, as torch.autograd.Function.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/gradients/autograd.h"
#include "frontends/eager/tensor.h"

namespace gemel::eager {

/// Tensors that a custom function passes from its forward to its backward function.
class Context {
 public:
  /// Called in forward. Inputs and outputs keep their history, so that gradients can be differentiated.
  void save_for_backward(Tensors tensors) { saved_ = std::move(tensors); }
  /// Called in backward: the saved tensors, in order.
  /// @throws UsageError if one was changed in place since
  const Tensors& saved() const { return saved_; }
  /// Tells if input i's gradient is needed; if not, backward may return an undefined tensor for it.
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
/// Both functions run when they are called, also while a graph is captured: their operators become part of it.
struct Function {
  std::string name;
  /// Runs without recording, on detached inputs.
  std::function<Tensors(Context&, const Tensors& inputs)> forward;
  /// Returns the gradients of the inputs, one each (undefined: none), from those of the outputs (zeros if none arrived).
  std::function<Tensors(const Context&, const Tensors& output_gradients)> backward;

  /// @throws UsageError without inputs; in the backward pass, if the number or a spec of the gradients differs from the inputs'
  Tensors operator()(const Tensors& inputs) const;
};

}  // namespace gemel::eager
