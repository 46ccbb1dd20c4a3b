// BytePairs: GPT-2's byte-level byte-pair encoding. Tokens equal those of Hugging Face's GPT2TokenizerFast, and decode to the same bytes.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "datasets/texts/tokenizer.h"

namespace gemel::datasets {

class BytePairs : public Tokenizer {
 public:
  /// @param vocabulary  vocab.json
  /// @param merges  merges.txt: pairs of tokens that are merged into one, in order of priority
  /// @throws DataError if a file cannot be read; naming the line if a merge uses tokens that the vocabulary lacks
  BytePairs(const std::filesystem::path& vocabulary, const std::filesystem::path& merges);
  using Merges = std::vector<std::pair<std::string, std::string>>;
  /// @param special  tokens that are recognised in the text as they are
  /// @throws DataError if a merge uses tokens that the vocabulary lacks, with its number from 0
  BytePairs(Vocabulary vocabulary, const Merges& merges, const std::vector<std::string>& special);

  /// Splits a text into words with the space before them, and a word into bytes, which are merged by priority. Takes n log n time in the length of a word.
  /// Source: A. Radford et al., Language models are unsupervised multitask learners, 2019; R. Sennrich et al., 2016
  std::vector<std::int64_t> encode(std::string_view text) const override;
  /// Encodes a text without special tokens around it, truncated at its end.
  /// @throws UsageError for a second text
  Tokens for_model(std::string_view text, std::optional<std::string_view> second, std::int64_t longest) const override;
  /// Returns the bytes that the tokens stand for.
  std::string decode(const std::vector<std::int64_t>& ids) const override;
  /// Returns <|endoftext|> for both ends.
  TextEnds ends() const override;
  /// Returns <|endoftext|>, the customary padding of GPT-2, which has none of its own; 0 if the vocabulary lacks it.
  std::int64_t padding() const override { return vocabulary_.find("<|endoftext|>").value_or(0); }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  /// Tells if each single byte is a token.
  bool has_all_bytes() const;

 private:
  struct Merge {
    std::uint32_t rank, into;  // rank: priority, lowest first; into: the merged token
  };
  static std::uint64_t pair_of(std::int64_t a, std::int64_t b) { return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint64_t>(b); }
  /// A part of a word, and its possible merge with the part after it.
  struct Part {
    std::int64_t token;           // -1: merged into the part before it
    std::uint32_t before, after;  // neighbouring parts
    std::uint32_t rank;           // of the merge with the next part; kNone: there is none
    std::uint32_t into;
  };
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  /// Memory that is reused from word to word.
  struct Scratch {
    std::vector<Part> parts;
    std::vector<std::uint64_t> joints;  // a heap of rank << 32 | part, the smallest first
  };
  BytePairs(Vocabulary vocabulary, const std::vector<std::string>& special);
  void read_merges(const std::filesystem::path& file);
  void add_merge(std::string_view a, std::string_view b);
  void append_word(std::vector<std::int64_t>& out, std::string_view bytes, Scratch& scratch) const;
  void note_joint(std::uint32_t first, Scratch& scratch) const;

  Vocabulary vocabulary_;
  SpecialTokens special_;
  std::array<std::int64_t, 256> byte_ids_{};  // [byte] token; -1: the vocabulary has no token of that byte alone
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::uint32_t next_rank_ = 0;
};

}  // namespace gemel::datasets
