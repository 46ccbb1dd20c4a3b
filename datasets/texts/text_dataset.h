// Texts: a data set of tokenized texts with labels; a sample is one text or a pair.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datasets/loading/dataset.h"
#include "datasets/texts/token_sequences.h"
#include "datasets/texts/tokenizer.h"

namespace gemel::datasets {

struct TextsOptions {
  std::string name{};  // name that opens the data set
  std::int64_t classes = 2;
  std::int64_t padding = 0;  // token after the end of shorter texts
  RowLengths lengths = RowLengths::of_all;
};

/// A batch has "ids" and "types", int64 [N, T], padded at the end, and "labels", int64 [N].
class Texts final : public Dataset {
 public:
  explicit Texts(TextsOptions options) : options_(std::move(options)) {}
  /// @param label  0..classes-1
  void add(const Tokens& tokens, std::int64_t label);
  /// Keeps the first `samples` samples.
  void keep(std::int64_t samples);

  std::string_view name() const override { return options_.name; }
  std::int64_t size() const override { return std::ssize(labels_); }
  std::int64_t classes() const override { return options_.classes; }
  std::int64_t length(std::int64_t i) const override { return rows_.length(i); }
  /// Most tokens of a sample.
  std::int64_t longest() const { return rows_.longest(); }
  std::int64_t label(std::int64_t i) const { return labels_[static_cast<std::size_t>(i)]; }
  std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws = {}) const override;

 private:
  TextsOptions options_;
  TokenRows rows_;                           // [sample]
  std::vector<std::int32_t> first_lengths_;  // [sample] number of tokens of type 0; the others are of type 1
  std::vector<std::int64_t> labels_;
};

struct TextSplits {
  std::unique_ptr<Texts> train, validation;
};

}  // namespace gemel::datasets
