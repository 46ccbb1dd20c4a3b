// WordPiece: BERT's tokenizer. The same numbers as Hugging Face's BertTokenizerFast.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/texts/tokenizer.h"

namespace gemel::datasets {

class WordPiece : public Tokenizer {
 public:
  /// @throws DataError where the vocabulary cannot be read, or lacks [UNK], [CLS], [SEP] or [PAD]
  explicit WordPiece(const std::filesystem::path& vocabulary, Letters letters = Letters::lower);
  /// @param special  stand in a text as they are  @param file  that errors name
  WordPiece(Vocabulary vocabulary, Letters letters, const std::vector<std::string>& special, const std::filesystem::path& file);

  /// Special tokens in the text are themselves. Controls are dropped, ideographs of Chinese are words, words are cut at white space and
  /// punctuation, then into the longest pieces that the vocabulary has; a word of over 100 letters, or with a part that it lacks, is [UNK].
  /// Source: J. Devlin et al., BERT, 2018; M. Schuster, K. Nakajima, Japanese and Korean voice search, 2012
  std::vector<std::int64_t> encode(std::string_view text) const override;
  /// [CLS] text [SEP], or [CLS] text [SEP] second [SEP].
  Tokens for_model(std::string_view text, std::optional<std::string_view> second, std::int64_t longest) const override;
  /// Words with a space between.
  std::string decode(const std::vector<std::int64_t>& ids) const override;
  /// [CLS] and [SEP].
  TextEnds ends() const override { return {begin_, separator_}; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::int64_t padding() const override { return padding_; }

 private:
  void append_plain(std::vector<std::int64_t>& out, std::string_view text) const;
  std::u32string normalised(std::string_view text) const;
  void append_word(std::vector<std::int64_t>& out, std::u32string_view word) const;

  Vocabulary vocabulary_;
  Letters letters_;
  SpecialTokens special_;
  std::int64_t unknown_, begin_, separator_, padding_;
  std::size_t longest_ = 0;  // bytes of a token
};

}  // namespace gemel::datasets
