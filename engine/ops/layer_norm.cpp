// Layer normalisation:   y = (x - mean) / sqrt(var + eps) gamma + beta, over the last axes, as many as gamma has.
// Written in public operators, which give its gradients; deviations are taken from the mean before they are squared.
#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel {

Value layer_norm(Value x, Value gamma, Value beta, double eps) {
  const int rank = x.shape().rank(), normalised = gamma.shape().rank();
  bool fits = normalised >= 1 && normalised <= rank && beta.shape() == gamma.shape();
  for (int k = 1; fits && k <= normalised; ++k) fits = gamma.shape()[normalised - k] == x.shape()[rank - k];
  if (!fits)
    throw ShapeError("layer_norm: gamma " + to_string(gamma.shape()) + " and beta " + to_string(beta.shape()) + " do not fit x " +
                     to_string(x.shape()) + "; accepted: both of the extents of x's last axes");
  Axes axes;
  for (int k = rank - normalised; k < rank; ++k) axes.push_back(k);
  const Value centred = x - mean(x, axes, Keep::yes);
  const Value scale = rsqrt(mean(square(centred), axes, Keep::yes) + eps);
  return centred * scale * std::move(gamma) + std::move(beta);
}

}  // namespace gemel
