// Vocabulary: tokens and their numbers.
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
  /// Reads one token a line (datasets/formats/lines.h), numbered from 0; white space at the end of a line is removed. A blank line has a number too, except at
  /// the end of the file. A token that occurs twice has the last of its numbers.
  /// @throws DataError if the file is missing, empty or not UTF-8; names the line
  static Vocabulary of_lines(const std::filesystem::path& file);
  /// Reads a JSON object of tokens and their numbers, which are 0..tokens-1.
  /// @throws DataError if the file is anything else; names the token
  static Vocabulary of_json(const std::filesystem::path& file);
  /// Makes a vocabulary of tokens with distinct numbers, which are 0..tokens-1 if gaps are refused. A number without a token stands for no text.
  /// @param file  path for error messages
  /// @throws DataError if numbers repeat or leave a refused gap; names the token
  enum class Gaps { refused, accepted };
  static Vocabulary of_numbers(std::vector<std::pair<std::string, std::int64_t>> tokens, Gaps gaps, const std::filesystem::path& file);

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::optional<std::int64_t> find(std::string_view token) const;
  /// @throws UsageError if id is out of range
  const std::string& token(std::int64_t id) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> ids_;
};

/// Special tokens that are recognised in a text as they are, before anything else is done with it.
class SpecialTokens {
 public:
  /// @param tokens  those that are empty or not in the vocabulary are ignored
  SpecialTokens(const Vocabulary& vocabulary, const std::vector<std::string>& tokens);

  /// Cuts a text at special tokens: passes the text between them to `plain`, and the number of each special token to `special`. Where two begin at one place
  /// the longer one counts.
  void cut(std::string_view text, const std::function<void(std::string_view)>& plain, const std::function<void(std::int64_t)>& special) const;

 private:
  std::vector<std::pair<std::string, std::int64_t>> tokens_;  // the longest first
  std::bitset<256> begins_;                                   // [byte] true if a token begins with it
};

}  // namespace gemel::datasets
