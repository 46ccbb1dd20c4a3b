// A vocabulary: tokens and their numbers.
#pragma once
#include <bitset>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gemel::datasets {

class Vocabulary {
 public:
  /// A token a line (datasets/formats/lines.h), the first one 0; white space at the ends of lines is no part of them. A blank line has a number, too, but at
  /// the end of the file; of a token that is there twice the last number counts.
  /// @throws DataError where the file is missing, is empty or is not UTF-8: names the line
  static Vocabulary of_lines(const std::filesystem::path& file);
  /// An object of tokens and numbers, from 0 on without a gap.
  /// @throws DataError where it is anything else: names the token
  static Vocabulary of_json(const std::filesystem::path& file);
  /// Each number once, and where gaps are refused all of 0..tokens-1. A number that no token has stands for no text.
  /// @param file  that errors name  @throws DataError where that is not so: names the token
  enum class Gaps { refused, accepted };
  static Vocabulary of_numbers(std::vector<std::pair<std::string, std::int64_t>> tokens, Gaps gaps, const std::filesystem::path& file);

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::optional<std::int64_t> find(std::string_view token) const;
  /// @throws UsageError out of range
  const std::string& token(std::int64_t id) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> ids_;
};

/// Special tokens that stand in a text as they are: found before anything else is done with it.
class SpecialTokens {
 public:
  /// @param tokens  those that the vocabulary has count, and that are not empty
  SpecialTokens(const Vocabulary& vocabulary, const std::vector<std::string>& tokens);

  /// Cuts a text: what lies between special tokens is given to `text`, the number of each of them to `special`. Where two begin at a place the
  /// longer one counts.
  void cut(std::string_view text, const std::function<void(std::string_view)>& plain, const std::function<void(std::int64_t)>& special) const;

 private:
  std::vector<std::pair<std::string, std::int64_t>> tokens_;  // the longest first
  std::bitset<256> begins_;                                   // [byte] whether one begins with it
};

}  // namespace gemel::datasets
