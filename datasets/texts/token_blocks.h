// TokenBlocks: running text as blocks of tokens, each labelled with the token after it, for language models.
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
  std::string name{};           // name that opens the data set
  std::int64_t vocabulary = 0;  // tokens are 0..vocabulary-1
  std::int64_t length = 128;    // of a block
};

/// A batch has "ids", int64 [N, length], and "labels", int64 [N, length]: the token after each. Each token of the text but the first is a label once. A shorter
/// last block is padded with id 0 and label -1.
class TokenBlocks final : public Dataset {
 public:
  /// @param tokens  of the text, two or more
  TokenBlocks(TokenBlocksOptions options, std::vector<std::int32_t> tokens);
  /// Keeps the first `samples` blocks.
  void keep(std::int64_t samples);

  std::string_view name() const override { return options_.name; }
  std::int64_t size() const override { return blocks_; }
  /// Size of the vocabulary.
  std::int64_t classes() const override { return options_.vocabulary; }
  std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws = {}) const override;

 private:
  TokenBlocksOptions options_;
  std::vector<std::int32_t> tokens_;
  std::int64_t blocks_;
};

struct TokenBlockSplits {
  std::unique_ptr<TokenBlocks> train, validation;  // validation may be null
};

struct RunningTextOptions {
  std::filesystem::path folder{};  // holds train.txt, and optionally dev.txt
  std::int64_t length = 128;       // tokens of a block
  std::int64_t limit = 0;          // most blocks of each split, the first ones; 0: all
};
/// Reads and tokenizes FOLDER/train.txt and dev.txt.
/// @throws DataError naming the file: train.txt is missing; a text is not UTF-8, or has fewer than two tokens
TokenBlockSplits open_running_text(const Tokenizer& tokenizer, const RunningTextOptions& options);

struct SyntheticTokensOptions {
  std::int64_t vocabulary = 50257, length = 128;
  std::int64_t samples = 2048;  // blocks of the training split
  std::uint64_t seed = 1;
};
/// Makes synthetic text: three tokens in four follow from the one before, the others are any. It is the data set "synthetic" for language models.
TokenBlockSplits synthetic_tokens(const SyntheticTokensOptions& options);

}  // namespace gemel::datasets
