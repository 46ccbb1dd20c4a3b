// Tokenizer: the interface that converts text to tokens of a vocabulary and back, with special tokens, pairs and truncation.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/texts/vocabulary.h"

namespace gemel::datasets {

/// Case of letters. lower: lower case without accents. kept: unchanged.
enum class Letters { lower, kept };

/// A text or a pair of texts as a model takes it.
struct Tokens {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> types;  // 0 for the first text and the special tokens around it, 1 for the second
};

/// Tokens that stand before and after a text that a model writes.
struct TextEnds {
  std::int64_t begin, end;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Encodes a text without special tokens around it.
  /// @throws DataError if the text is not UTF-8
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  /// Encodes one text or two with special tokens, truncated to at most `longest` tokens in all.
  /// @throws UsageError if not even the special tokens have room, or for a second text if the tokenizer takes one
  virtual Tokens for_model(std::string_view text, std::optional<std::string_view> second, std::int64_t longest) const = 0;
  /// Returns the text that the tokens stand for; a special token becomes its name.
  /// @throws UsageError for a token that the vocabulary lacks
  virtual std::string decode(const std::vector<std::int64_t>& ids) const = 0;
  /// @throws DataError if the vocabulary has no such tokens
  virtual TextEnds ends() const = 0;
  /// Token that stands after the end of a text.
  virtual std::int64_t padding() const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

/// Encodes a text between its ends, truncated to at most `longest` tokens in all.
/// @param longest  2 or more
/// @throws as encode and ends do
std::vector<std::int64_t> between_ends(const Tokenizer& tokenizer, std::string_view text, std::int64_t longest);

/// How many tokens of each of two texts are kept if both together may have `most`: the longer text is truncated first, then both equally (longest_first of
/// Hugging Face's tokenizers).
struct KeptTokens {
  std::int64_t first, second;
};
KeptTokens longest_first(std::int64_t first, std::int64_t second, std::int64_t most);

}  // namespace gemel::datasets
