// A task's sums over a whole data set.
#pragma once
#include <functional>

#include "datasets/loading/batch.h"
#include "frontends/train/step.h"

namespace gemel::train {

/// Runs an epoch through the model in evaluation mode. The host reads one batch late.
/// @param after_batch  called after each batch is enqueued; what it throws ends the evaluation
/// @throws DataError where a label or an index is out of range
Sums evaluate(Stepper& step, datasets::BatchSource& data, const std::function<void()>& after_batch = {});

}  // namespace gemel::train
