// ctc_loss composed of public operators, for its second derivatives.
#pragma once
#include "engine/core/attributes.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

Values composed_ctc_loss(const Values& inputs, const Attributes& attributes);
/// A sample without alignment has the gradient 0, also where the kernel's is NaN.
Values composed_ctc_loss_backward(const Values& inputs, const Attributes& attributes);

}  // namespace gemel::inline ops
