// TokenRows: tokenized texts of different lengths in one array.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "datasets/loading/padded_length.h"

namespace gemel::datasets {

class TokenRows {
 public:
  void add(std::span<const std::int64_t> ids);
  /// Keeps the first `texts` texts.
  void keep(std::int64_t texts);

  std::int64_t size() const { return std::ssize(ends_) - 1; }
  std::span<const std::int32_t> operator[](std::int64_t i) const;
  std::int64_t length(std::int64_t i) const { return ends_[static_cast<std::size_t>(i) + 1] - ends_[static_cast<std::size_t>(i)]; }
  /// Most tokens of a text.
  std::int64_t longest() const { return longest_; }
  /// Returns the padded length of a batch of these texts.
  std::int64_t row_length(std::span<const std::int64_t> texts, RowLengths lengths) const { return datasets::row_length(*this, texts, lengths, longest_); }

 private:
  std::vector<std::int32_t> ids_;      // of all texts, one after another
  std::vector<std::int64_t> ends_{0};  // [text + 1] offset of its first token
  std::int64_t longest_ = 0;
};

}  // namespace gemel::datasets
