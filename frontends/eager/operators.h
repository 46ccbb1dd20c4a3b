// The engine's operators and functions under their own names, for `using namespace gemel::eager` alone or beside `using namespace gemel`. They take
// Tensors and give Values, which become Tensors where one is named: `Tensor y = relu(x)`. engine/ops/ops.h says what each does.
#pragma once
#include "engine/ops/ops.h"

namespace gemel::eager {

using namespace gemel::ops;

}  // namespace gemel::eager
