// Gradients on demand: backward passes over several tensors, grad(), and the scopes that switch recording off and on.
#pragma once
#include <vector>

#include "frontends/eager/tensor.h"

namespace gemel::eager {

/// Adds the gradients of sum(tensors * gradients) to the leaves that the tensors depend on: into what their grad() holds.
/// @param gradients  one a tensor, or none: then each tensor has one element, and its gradient is 1
/// @throws UsageError as Tensor::backward
void backward(const Tensors& tensors, const Tensors& gradients = {}, const BackwardOptions& options = {});

struct GradOptions {
  Tensors grad_outputs = {};  // one an output, or none where each has one element
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;  // inputs that the outputs do not depend on give undefined tensors
};
/// Gradients of sum(outputs * grad_outputs) with respect to the inputs, leaving every grad() as it is.
/// @throws UsageError an input that does not require grad, or that is not used
Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options = {});

/// Nothing is recorded for gradients while it lives; leaves may be changed in place.
class NoGrad {
 public:
  explicit NoGrad(Session& session) : mode_(session, GradientMode::Mode::off) {}

 private:
  GradientMode mode_;
};
/// Records again, inside a NoGrad scope.
class EnableGrad {
 public:
  explicit EnableGrad(Session& session) : mode_(session, GradientMode::Mode::on) {}

 private:
  GradientMode mode_;
};

/// sum += more, into the memory of `sum` where there is one and the pass itself is not recorded.
void add_to(Value& sum, Value more);

}  // namespace gemel::eager
