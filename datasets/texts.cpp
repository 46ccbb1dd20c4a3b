#include "datasets/texts.h"

#include <algorithm>

#include "engine/base/span.h"

namespace gemel::datasets {

void Texts::add(const Tokens& tokens, std::int64_t label) {
  for (const std::int64_t id : tokens.ids) ids_.push_back(narrow<std::int32_t>(id));
  ends_.push_back(std::ssize(ids_));
  first_lengths_.push_back(narrow<std::int32_t>(std::ranges::count(tokens.types, 0)));
  labels_.push_back(label);
  longest_ = std::max(longest_, std::ssize(tokens.ids));
}

void Texts::keep(std::int64_t samples) {
  if (samples >= size()) return;
  labels_.resize(at(samples));
  first_lengths_.resize(at(samples));
  ends_.resize(at(samples) + 1);
  ids_.resize(at(ends_.back()));
  longest_ = 0;
  for (std::int64_t i = 0; i < samples; ++i) longest_ = std::max(longest_, length(i));
}

std::vector<HostTensor> Texts::tensors(std::span<const std::int64_t> samples, const std::optional<Draws>&) const {
  const std::int64_t n = std::ssize(samples), width = row_length(*this, samples, options_.lengths, longest_);
  std::vector<std::int64_t> ids(at(n * width), options_.padding), types(at(n * width), 0), labels;
  for (std::size_t j = 0; j < samples.size(); ++j) {
    const std::size_t sample = at(samples[j]), begin = j * at(width);
    const auto first = ids_.begin() + ends_[sample], last = ids_.begin() + ends_[sample + 1];
    std::copy(first, last, ids.begin() + static_cast<std::ptrdiff_t>(begin));
    std::fill(types.begin() + static_cast<std::ptrdiff_t>(begin) + first_lengths_[sample], types.begin() + static_cast<std::ptrdiff_t>(begin) + (last - first), 1);
    labels.push_back(labels_[sample]);
  }
  const auto tensor = [](const char* name, const Shape& shape, const std::vector<std::int64_t>& numbers) { return host_tensor(name, shape, std::span(numbers)); };
  return {tensor("ids", {n, width}, ids), tensor("types", {n, width}, types), tensor("labels", {n}, labels)};
}

}  // namespace gemel::datasets
