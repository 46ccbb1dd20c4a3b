#include "frontends/train/tasks/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "frontends/nn/loss.h"

namespace gemel::train {

const Value& Inputs::operator[](std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) throw UsageError(fmt::format("task: the tensor '{}' is read; accepted: those that inputs() names", name));
  return values_[at(found - names_.begin())];
}

Sums& Sums::operator+=(const Sums& more) {
  samples += more.samples;
  loss += more.loss;
  weight += more.weight;
  counts.resize(std::max(counts.size(), more.counts.size()), 0);
  for (std::size_t i = 0; i < more.counts.size(); ++i) counts[i] += more.counts[i];
  return *this;
}

std::vector<double> Task::count(const datasets::Batch&, std::span<const std::vector<double>>) const { return {}; }
std::vector<Metric> Task::metrics(const Sums&) const { return {}; }

namespace {

constexpr std::size_t kCorrect = 0, kBinary = 1, kClassCounts = 5;  // correct; [2 label + guess] of the samples with labels 0 and 1

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

std::vector<std::string> ClassificationTask::inputs() const {
  std::vector<std::string> out = options_.tensors;
  out.emplace_back("labels");
  return out;
}

Outcome ClassificationTask::forward(const Inputs& batch) {
  Values given;
  for (const std::string& name : options_.tensors) given.push_back(batch[name]);
  const Value logits = module_(std::move(given)).at(0);
  return {nn::classification_loss(module_, logits, batch["labels"], LossReduction::sum, options_.label_smoothing), {argmax(logits.detached(), 1)}};
}

std::vector<double> ClassificationTask::count(const datasets::Batch& batch, std::span<const std::vector<double>> outputs) const {
  std::vector<double> counts(kClassCounts, 0);
  const datasets::HostTensor& labels = batch["labels"];
  if (!is_integer(labels.spec.dtype) || labels.spec.shape != Shape{batch.samples})
    throw UsageError(fmt::format("classification: labels is {}; accepted: int32 or int64 [{}]", to_string(labels.spec), batch.samples));
  const std::vector<double> classes = numbers_from_bytes(labels.spec.dtype, *labels.bytes);
  for (std::size_t i = 0; i < outputs[0].size(); ++i) {
    const auto label = static_cast<std::int64_t>(classes[i]);
    const auto guess = static_cast<std::int64_t>(outputs[0][i]);
    counts[kCorrect] += guess == label;
    if (label == 0 || label == 1) ++counts[kBinary + at(2 * label) + (guess == 1)];
  }
  return counts;
}

std::vector<Metric> ClassificationTask::metrics(const Sums& sums) const {
  std::vector<double> c = sums.counts;
  c.resize(kClassCounts, 0);
  std::vector<Metric> out{{"accuracy", ratio(c[kCorrect], static_cast<double>(sums.samples))}};
  if (classes_ != 2) return out;
  const double missed = c[kBinary + 2], false_alarms = c[kBinary + 1], found = c[kBinary + 3];
  const double precision = ratio(found, found + false_alarms), recall = ratio(found, found + missed);
  out.push_back({"precision", precision});
  out.push_back({"recall", recall});
  out.push_back({"f1", ratio(2 * precision * recall, precision + recall)});
  const double rejected = c[kBinary];
  if (options_.first_metric == "matthews")
    out.push_back({"matthews", ratio(found * rejected - false_alarms * missed,
                                     std::sqrt((found + false_alarms) * (found + missed) * (rejected + false_alarms) * (rejected + missed)))});
  const auto first = std::ranges::find(out, options_.first_metric, &Metric::name);
  if (first != out.end()) std::rotate(out.begin(), first, first + 1);
  return out;
}

}  // namespace gemel::train
