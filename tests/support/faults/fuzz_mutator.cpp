#include "tests/support/faults/fuzz_mutator.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <string_view>

namespace gemel::testing {
namespace {

constexpr std::size_t kLongest = 1 << 16;  // that a text grows to
// At the ends of what 1, 2, 4 and 8 bytes hold; those in text are what parsers of numbers stumble over.
constexpr std::array<std::int64_t, 10> kLimits{0, 1, -1, 127, 255, 32767, 65535, 2147483647, 4294967295, INT64_MAX};
constexpr std::array<std::string_view, 12> kNumbers{
    "-1", "0", "1e9", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616", "nan", "inf", "0x10", "", "-0"};

}  // namespace

std::string Mutator::next() {
  std::string text = corpus_[draw(corpus_.size())];
  for (std::size_t changes = 1 + draw(4); changes > 0; --changes) change(text);
  text.resize(std::min(text.size(), kLongest));
  return text;
}

/// Puts another number in place of one that is written out.
void Mutator::change_digits(std::string& text) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto begin = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(draw(text.size())), text.end(), is_digit);
  text.replace(begin, std::find_if_not(begin, text.end(), is_digit), kNumbers[draw(kNumbers.size())]);
}

void Mutator::change(std::string& text) {
  if (text.empty()) {
    text.push_back(static_cast<char>(draw(256)));
    return;
  }
  const std::size_t at = draw(text.size()), length = 1 + draw(std::min<std::size_t>(text.size() - at, 64));
  switch (draw(9)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << draw(8)));
      break;
    case 1:
      text[at] = static_cast<char>(draw(256));
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:
      text.insert(at, text.substr(at, length));
      break;
    case 4:
      text.resize(at);
      break;
    case 5: {
      const std::int64_t limit = kLimits[draw(kLimits.size())];
      const std::size_t bytes = std::min(std::size_t{1} << draw(4), text.size() - at);
      std::memcpy(text.data() + at, &limit, bytes);
      break;
    }
    case 6: {
      const std::string& other = corpus_[draw(corpus_.size())];
      if (!other.empty()) text.insert(at, other.substr(draw(other.size()), length));
      break;
    }
    case 7:
      change_digits(text);
      break;
    case 8:
      text.insert(at, length, text[at]);
      break;
  }
}

}  // namespace gemel::testing
