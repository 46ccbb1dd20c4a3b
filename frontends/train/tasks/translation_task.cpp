#include "frontends/train/tasks/translation_task.h"

#include <algorithm>
#include <utility>

#include "engine/base/dtype_conversion.h"
#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "frontends/train/tasks/bleu.h"
#include "frontends/train/tasks/language_task.h"

namespace gemel::train {
namespace {

constexpr std::size_t kLabels = 0, kRight = 1, kBleu = 2, kRuns = BleuCounts::kLongest, kTranslationCounts = kBleu + 2 * kRuns + 2;

/// As a task's counts have them.
void add(const BleuCounts& bleu, std::span<double> to) {
  for (std::size_t n = 0; n < kRuns; ++n) {
    to[n] += static_cast<double>(bleu.matches[n]);
    to[kRuns + n] += static_cast<double>(bleu.runs[n]);
  }
  to[2 * kRuns] += static_cast<double>(bleu.hypothesis_words);
  to[2 * kRuns + 1] += static_cast<double>(bleu.reference_words);
}

BleuCounts bleu_of(std::span<const double> counts) {
  const auto whole = [&](std::size_t i) { return static_cast<std::int64_t>(counts[i]); };
  BleuCounts out;
  for (std::size_t n = 0; n < kRuns; ++n) {
    out.matches[n] = whole(n);
    out.runs[n] = whole(kRuns + n);
  }
  out.hypothesis_words = whole(2 * kRuns);
  out.reference_words = whole(2 * kRuns + 1);
  return out;
}

}  // namespace

std::vector<std::int64_t> before_end(std::span<const double> row, std::int64_t end) {
  std::vector<std::int64_t> out;
  for (const double token : row) {
    if (static_cast<std::int64_t>(token) == end) break;
    out.push_back(static_cast<std::int64_t>(token));
  }
  return out;
}

Outcome TranslationTask::forward(const Inputs& batch) {
  const Value &source = batch["source"], &labels = batch["labels"];
  Value logits = module_({source, batch["target"]}).at(0);
  const std::int64_t tokens = labels.elements(), vocabulary = logits.shape().back();
  Outcome out{cross_entropy_of_labelled(reshape(std::move(logits), Shape{tokens, vocabulary}), reshape(labels, Shape{tokens}), options_.label_smoothing)};
  if (translates_ && !module_.training()) out.outputs = {module_(list(source))[0]};
  return out;
}

double TranslationTask::weight(const datasets::Batch& batch) const { return label_count(batch); }

std::vector<double> TranslationTask::count(const datasets::Batch& batch, std::span<const std::vector<double>> outputs) const {
  std::vector<double> counts(kTranslationCounts, 0);
  if (outputs.empty() || batch.samples == 0) return counts;
  const datasets::HostTensor& labels = batch["labels"];
  const std::vector<double> all = numbers_from_bytes(labels.spec.dtype, *labels.bytes);
  const std::size_t length = at(labels.spec.shape[1]), most = outputs[0].size() / at(batch.samples);
  for (std::size_t i = 0; i < at(batch.samples); ++i) {
    const auto row = std::span(all).subspan(i * length, length);
    const auto expected = row.first(at(std::ranges::find_if(row, [](double label) { return label < 0; }) - row.begin()));
    const auto written = std::span(outputs[0]).subspan(i * most, most);
    const std::vector<std::int64_t> translation = before_end(written, options_.end);
    const std::size_t looked_at = std::min(translation.size() + 1, most);  // its end, where it has one, among them
    counts[kLabels] += static_cast<double>(expected.size());
    for (std::size_t t = 0; t < std::min(looked_at, expected.size()); ++t) counts[kRight] += written[t] == expected[t];
    add(bleu_counts(options_.text_of(before_end(expected, options_.end)), options_.text_of(translation)), std::span(counts).subspan(kBleu));
  }
  return counts;
}

std::vector<Metric> TranslationTask::metrics(const Sums& sums) const {
  if (sums.counts.size() < kTranslationCounts || sums.counts[kLabels] == 0) return {};
  return {{"bleu", bleu_of(std::span(sums.counts).subspan(kBleu)).score()}, {"token_accuracy", sums.counts[kRight] / sums.counts[kLabels]}};
}

}  // namespace gemel::train
