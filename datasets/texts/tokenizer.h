// Tokenizers: text to numbers of a vocabulary. What is common to them: special tokens around it, pairs, truncation.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/texts/vocabulary.h"

namespace gemel::datasets {

/// lower: in lower case, without accents.
enum class Letters { lower, kept };

/// A text, or two, as a model takes it.
struct Tokens {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> types;  // 0 of the first text and what is around it, 1 of the second
};

/// What stands before a text that a model is to write, and behind it.
struct TextEnds {
  std::int64_t begin, end;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Without anything around it. @throws DataError where the text is not UTF-8
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  /// With what a model wants around one text or two, cut to at most `longest` tokens in all.
  /// @throws UsageError where not even what is around them has room; a second text where the tokenizer takes one
  virtual Tokens for_model(std::string_view text, std::optional<std::string_view> second, std::int64_t longest) const = 0;
  /// The text that the tokens stand for; a special token stands for its own name. @throws UsageError for a number that the vocabulary has not
  virtual std::string decode(const std::vector<std::int64_t>& ids) const = 0;
  /// @throws DataError where the vocabulary has no tokens for that
  virtual TextEnds ends() const = 0;
  /// The token that stands behind the end of a text.
  virtual std::int64_t padding() const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

/// A text between its ends, cut behind to at most so many tokens in all. @param longest  2 or more  @throws as encode and ends do
std::vector<std::int64_t> between_ends(const Tokenizer& tokenizer, std::string_view text, std::int64_t longest);

/// How many tokens of two texts stay where together they may be `most`: the longer one loses first, then both alike (the longest_first of
/// Hugging Face's tokenizers).
struct KeptTokens {
  std::int64_t first, second;
};
KeptTokens longest_first(std::int64_t first, std::int64_t second, std::int64_t most);

}  // namespace gemel::datasets
