// What clipping by norm needs to know of one gradient, dense or of rows.
#pragma once
#include "engine/value.h"

namespace gemel::optim {

/// The sum of its squares, float32 []; of rows, once those of one index are summed.
Value squared_norm(const Value& gradient);
/// min(1, max_norm / (norm + 1e-6)), float32 []. @param norm  float32 []
Value clip_factor(const Value& norm, double max_norm);
Value scaled(Value gradient, const Value& factor);

}  // namespace gemel::optim
