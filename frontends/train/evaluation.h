// Evaluates a task over a data set.
#pragma once
#include <functional>

#include "datasets/loading/batch.h"
#include "frontends/train/step.h"

namespace gemel::train {

/// Runs an epoch in evaluation mode and returns the task's sums. The host reads results one batch late.
/// @param after_batch  called after each batch is enqueued; an exception ends the evaluation
/// @throws DataError if a label or an index is out of range
Sums evaluate(Stepper& step, datasets::BatchSource& data, const std::function<void()>& after_batch = {});

}  // namespace gemel::train
