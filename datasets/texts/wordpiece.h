// WordPiece: BERT's tokenizer. Tokens equal those of Hugging Face's BertTokenizerFast.
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
  /// @throws DataError if the vocabulary cannot be read, or lacks [UNK], [CLS], [SEP] or [PAD]
  explicit WordPiece(const std::filesystem::path& vocabulary, Letters letters = Letters::lower);
  /// @param special  tokens that are recognised in the text as they are
  /// @param file  path for error messages
  WordPiece(Vocabulary vocabulary, Letters letters, const std::vector<std::string>& special, const std::filesystem::path& file);

  /// Drops control characters and cuts the text into words at white space, at punctuation and around each Chinese ideograph; cuts a word into the longest
  /// pieces that the vocabulary has. A word of more than 100 letters, or with a part that the vocabulary lacks, becomes [UNK]. Special tokens in the text stay
  /// whole.
  /// Source: J. Devlin et al., BERT, 2018; M. Schuster, K. Nakajima, Japanese and Korean voice search, 2012
  std::vector<std::int64_t> encode(std::string_view text) const override;
  /// Returns [CLS] text [SEP], or [CLS] text [SEP] second [SEP].
  Tokens for_model(std::string_view text, std::optional<std::string_view> second, std::int64_t longest) const override;
  /// Returns the words with a space between them.
  std::string decode(const std::vector<std::int64_t>& ids) const override;
  /// Returns [CLS] and [SEP].
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
  std::size_t longest_ = 0;  // bytes of the longest token
};

}  // namespace gemel::datasets
