#include "frontends/train/evaluation.h"

#include <optional>
#include <utility>

namespace gemel::train {

Sums evaluate(Stepper& step, datasets::BatchSource& data, const std::function<void()>& after_batch) {
  data.start(0);
  Sums sums;
  std::optional<Pending> before;
  while (auto batch = data.next()) {
    Pending now = step.evaluate(*batch);
    if (before) sums += before->get();
    before = std::move(now);
    if (after_batch) after_batch();
  }
  if (before) sums += before->get();
  return sums;
}

}  // namespace gemel::train
