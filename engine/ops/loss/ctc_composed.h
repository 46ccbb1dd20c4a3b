// ctc_loss and ctc_loss_backward in public operators. Frame by frame, so slow for many frames; differentiable as often as wanted.
#pragma once
#include "engine/core/attributes.h"
#include "engine/core/value.h"

namespace gemel {

Values composed_ctc_loss(const Values& inputs, const Attributes& attributes);
/// A sample without alignment has the gradient 0, also where the kernel's is NaN.
Values composed_ctc_loss_backward(const Values& inputs, const Attributes& attributes);

}  // namespace gemel
