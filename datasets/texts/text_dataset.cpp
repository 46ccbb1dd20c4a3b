#include "datasets/texts/text_dataset.h"

#include <algorithm>

#include "engine/base/numbers.h"

namespace gemel::datasets {

void Texts::add(const Tokens& tokens, std::int64_t label) {
  rows_.add(tokens.ids);
  first_lengths_.push_back(narrow<std::int32_t>(std::ranges::count(tokens.types, 0)));
  labels_.push_back(label);
}

void Texts::keep(std::int64_t samples) {
  if (samples >= size()) return;
  rows_.keep(samples);
  labels_.resize(at(samples));
  first_lengths_.resize(at(samples));
}

std::vector<HostTensor> Texts::tensors(std::span<const std::int64_t> samples, const std::optional<Draws>&) const {
  const std::int64_t n = std::ssize(samples), width = rows_.row_length(samples, options_.lengths);
  std::vector<std::int64_t> ids(at(n * width), options_.padding), types(at(n * width), 0), labels;
  for (std::size_t j = 0; j < samples.size(); ++j) {
    const std::size_t sample = at(samples[j]);
    const auto begin = static_cast<std::ptrdiff_t>(j) * width;
    const std::span<const std::int32_t> row = rows_[samples[j]];
    std::ranges::copy(row, ids.begin() + begin);
    std::fill(types.begin() + begin + first_lengths_[sample], types.begin() + begin + std::ssize(row), 1);
    labels.push_back(labels_[sample]);
  }
  const auto tensor = [](const char* name, const Shape& shape, const std::vector<std::int64_t>& numbers) {
    return host_tensor(name, shape, std::span(numbers));
  };
  return {tensor("ids", {n, width}, ids), tensor("types", {n, width}, types), tensor("labels", {n}, labels)};
}

}  // namespace gemel::datasets
