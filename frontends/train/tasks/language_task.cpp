#include "frontends/train/tasks/language_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/ops/ops.h"

namespace gemel::train {

Outcome LanguageTask::forward(const Inputs& batch) {
  Value logits = module_(batch["ids"]);
  const Value& labels = batch["labels"];
  const std::int64_t tokens = labels.elements(), vocabulary = logits.shape().back();
  return {cross_entropy_of_labelled(reshape(std::move(logits), Shape{tokens, vocabulary}), reshape(labels, Shape{tokens}))};
}

double label_count(const datasets::Batch& batch) {
  const datasets::HostTensor& labels = batch["labels"];
  if (!is_integer(labels.spec.dtype)) throw UsageError(fmt::format("tokens: labels is {}; accepted: int32 or int64", to_string(labels.spec)));
  const std::vector<double> numbers = numbers_from_bytes(labels.spec.dtype, *labels.bytes);
  return static_cast<double>(std::ranges::count_if(numbers, [](double label) { return label >= 0; }));
}

double LanguageTask::weight(const datasets::Batch& batch) const { return label_count(batch); }

std::vector<Metric> LanguageTask::metrics(const Sums& sums) const { return {{"perplexity", std::exp(sums.mean_loss())}}; }

}  // namespace gemel::train
