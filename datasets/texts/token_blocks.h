// Running text as blocks of tokens, each with the token that follows it: what a language model learns from.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/loading/dataset.h"
#include "datasets/texts/tokenizer.h"

namespace gemel::datasets {

struct TokenBlocksOptions {
  std::string name{};           // that the data set is opened by
  std::int64_t vocabulary = 0;  // tokens are 0..vocabulary-1
  std::int64_t length = 128;    // of a block
};

/// A batch has "ids", int64 [N, length], and "labels", int64 [N, length]: the token behind each. Each token but the first of the text is a label
/// once. Where the last block is shorter, ids 0 stand behind it, whose labels are -1.
class TokenBlocks final : public Dataset {
 public:
  /// @param tokens  of the text, two or more
  TokenBlocks(TokenBlocksOptions options, std::vector<std::int32_t> tokens);
  /// Drops all but the first so many.
  void keep(std::int64_t samples);

  std::string_view name() const override { return options_.name; }
  std::int64_t size() const override { return blocks_; }
  /// The vocabulary's tokens.
  std::int64_t classes() const override { return options_.vocabulary; }
  std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws = {}) const override;

 private:
  TokenBlocksOptions options_;
  std::vector<std::int32_t> tokens_;
  std::int64_t blocks_;
};

struct TokenBlockSplits {
  std::unique_ptr<TokenBlocks> train, validation;  // validation: null where there is none
};

struct RunningTextOptions {
  std::filesystem::path folder{};  // that holds train.txt, and dev.txt where there is one
  std::int64_t length = 128;       // tokens of a block
  std::int64_t limit = 0;          // at most so many blocks of each split, the first ones; 0: all
};
/// @throws DataError naming the file: train.txt is missing; text that is not UTF-8, or of fewer than two tokens
TokenBlockSplits open_running_text(const Tokenizer& tokenizer, const RunningTextOptions& options);

struct SyntheticTokensOptions {
  std::int64_t vocabulary = 50257, length = 128;
  std::int64_t samples = 2048;  // blocks of the training split
  std::uint64_t seed = 1;
};
/// synthetic, for language models: three tokens in four follow from the one before, the others are any.
TokenBlockSplits synthetic_tokens(const SyntheticTokensOptions& options);

}  // namespace gemel::datasets
