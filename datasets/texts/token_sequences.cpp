#include "datasets/texts/token_sequences.h"

#include <algorithm>

#include "engine/base/numbers.h"

namespace gemel::datasets {

void TokenRows::add(std::span<const std::int64_t> ids) {
  for (const std::int64_t id : ids) ids_.push_back(narrow<std::int32_t>(id));
  ends_.push_back(std::ssize(ids_));
  longest_ = std::max(longest_, std::ssize(ids));
}

void TokenRows::keep(std::int64_t texts) {
  if (texts >= size()) return;
  ends_.resize(at(texts) + 1);
  ids_.resize(at(ends_.back()));
  longest_ = 0;
  for (std::int64_t i = 0; i < texts; ++i) longest_ = std::max(longest_, length(i));
}

std::span<const std::int32_t> TokenRows::operator[](std::int64_t i) const { return std::span(ids_).subspan(at(ends_[at(i)]), at(length(i))); }

}  // namespace gemel::datasets
