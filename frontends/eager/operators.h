// The engine's operators and functions as gemel::eager::NAME, for `using namespace gemel::eager` with or without `using namespace gemel`. They take Tensors and
// return Values, which convert to Tensors: `Tensor y = relu(x)`. Documentation: engine/ops/ops.h.
#pragma once
#include "engine/ops/ops.h"

namespace gemel::eager {

using namespace gemel::ops;

}  // namespace gemel::eager
