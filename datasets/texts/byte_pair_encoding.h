// Byte-pair encoding over bytes: GPT-2's tokenizer. The same numbers as Hugging Face's GPT2TokenizerFast, and back to the same bytes.
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
  /// @param vocabulary  vocab.json  @param merges  merges.txt: pairs of tokens that become one, the first before all others
  /// @throws DataError where one cannot be read, or merges tokens that the vocabulary lacks: names the line
  BytePairs(const std::filesystem::path& vocabulary, const std::filesystem::path& merges);
  using Merges = std::vector<std::pair<std::string, std::string>>;
  /// @param special  stand in a text as they are  @throws DataError where a merge is of tokens that the vocabulary lacks: tells its number, from 0
  BytePairs(Vocabulary vocabulary, const Merges& merges, const std::vector<std::string>& special);

  /// Words are cut off with the space before them; each byte is a letter, and letters grow together as the merges say. Time: n log n in a word's length.
  /// Source: A. Radford et al., Language models are unsupervised multitask learners, 2019; R. Sennrich et al., 2016
  std::vector<std::int64_t> encode(std::string_view text) const override;
  /// The text alone, cut behind. @throws UsageError for a second one
  Tokens for_model(std::string_view text, std::optional<std::string_view> second, std::int64_t longest) const override;
  /// The bytes that the tokens stand for.
  std::string decode(const std::vector<std::int64_t>& ids) const override;
  /// <|endoftext|>, both.
  TextEnds ends() const override;
  /// That of <|endoftext|>, as is usual with GPT-2, which has none of its own; 0 where the vocabulary lacks it.
  std::int64_t padding() const override { return vocabulary_.find("<|endoftext|>").value_or(0); }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  /// Whether each byte is a token.
  bool has_all_bytes() const;

 private:
  struct Merge {
    std::uint32_t rank, into;  // the smaller first; a token
  };
  static std::uint64_t pair_of(std::int64_t a, std::int64_t b) { return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint64_t>(b); }
  /// A part of a word that is being merged, and what it may become with the one behind it.
  struct Part {
    std::int64_t token;           // -1: it has grown into the one before
    std::uint32_t before, after;  // parts beside it
    std::uint32_t rank;           // of the merge; kNone: there is none
    std::uint32_t into;
  };
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  /// Memory that words use one after another.
  struct Scratch {
    std::vector<Part> parts;
    std::vector<std::uint64_t> joints;  // a heap of rank << 32 | part, the smallest at the front
  };
  BytePairs(Vocabulary vocabulary, const std::vector<std::string>& special);
  void read_merges(const std::filesystem::path& file);
  void add_merge(std::string_view a, std::string_view b);
  void append_word(std::vector<std::int64_t>& out, std::string_view bytes, Scratch& scratch) const;
  void note_joint(std::uint32_t first, Scratch& scratch) const;

  Vocabulary vocabulary_;
  SpecialTokens special_;
  std::array<std::int64_t, 256> byte_ids_{};  // -1: the vocabulary has no token of that byte alone
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::uint32_t next_rank_ = 0;
};

}  // namespace gemel::datasets
