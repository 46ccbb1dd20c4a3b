#include "frontends/cli/evaluation.h"

#include <optional>
#include <utility>

#include "datasets/loader.h"

namespace gemel::cli {

void Totals::add(const StepResult& step) {
  samples += static_cast<std::int64_t>(step.labels.size());
  loss += step.loss * static_cast<double>(step.labels.size());
  correct += step.correct();
  for (std::size_t i = 0; i < step.labels.size(); ++i)
    if (step.labels[i] <= 1) ++binary[static_cast<std::size_t>(2 * step.labels[i]) + (step.guesses[i] == 1)];
}

double Totals::f1() const {
  const double sum = precision() + recall();
  return sum > 0 ? 2 * precision() * recall() / sum : 0;
}

Totals evaluate(Training& training, const datasets::Dataset& data, std::int64_t batch_size, const std::function<void()>& after_batch) {
  datasets::LoaderOptions options;
  options.batch_size = batch_size;
  options.shuffle = datasets::Shuffle::off;
  datasets::Loader loader(data, options);
  loader.start(0);
  Totals totals;
  std::optional<PendingStep> before;
  const auto settle = [&] {
    if (before) totals.add(before->get());
  };
  while (auto batch = loader.next()) {
    PendingStep now = training.evaluate(*batch);
    settle();
    before = std::move(now);
    after_batch();
  }
  settle();
  return totals;
}

}  // namespace gemel::cli
