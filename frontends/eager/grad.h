// Backward passes over several tensors, grad(), and scopes that turn recording off and on.
#pragma once
#include <vector>

#include "frontends/eager/tensor.h"

namespace gemel::eager {

/// Adds the gradients of sum(tensors * gradients) to grad() of the leaves that the tensors depend on.
/// @param gradients  one for each tensor; or none, if each tensor has one element: then 1
/// @throws UsageError as Tensor::backward
void backward(const Tensors& tensors, const Tensors& gradients = {}, const BackwardOptions& options = {});

struct GradOptions {
  Tensors grad_outputs = {};  // one for each output; or none, if each output has one element
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;  // inputs that the outputs do not depend on get undefined tensors
};
/// Returns the gradients of sum(outputs * grad_outputs) for the inputs, and leaves every grad() unchanged.
/// @throws UsageError for an input that does not require grad, or that is not used
Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options = {});

/// Turns recording for gradients off while it lives; leaves may be changed in place.
class NoGrad {
 public:
  explicit NoGrad(Session& session) : mode_(session, GradientMode::Mode::off) {}

 private:
  GradientMode mode_;
};
/// Turns recording on again within a NoGrad scope.
class EnableGrad {
 public:
  explicit EnableGrad(Session& session) : mode_(session, GradientMode::Mode::on) {}

 private:
  GradientMode mode_;
};

/// sum += more, in the memory of `sum` if it is not empty and the pass itself is not recorded.
void add_to(Value& sum, Value more);

}  // namespace gemel::eager
