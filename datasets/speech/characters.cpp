#include "datasets/speech/characters.h"

#include <fmt/format.h>

#include "datasets/formats/unicode.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::datasets {
namespace {

constexpr std::string_view kAlphabet = " 'abcdefghijklmnopqrstuvwxyz";  // of the classes behind the blank
static_assert(kAlphabet.size() + 1 == kCharacterClasses);

}  // namespace

std::string spelled(std::string_view transcript) {
  const std::u32string given = code_points(transcript);
  std::string out;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char32_t c = given[i] >= U'A' && given[i] <= U'Z' ? given[i] - U'A' + U'a' : given[i];
    if (c > 0x7F || kAlphabet.find(static_cast<char>(c)) == std::string_view::npos)
      throw DataError(fmt::format("its transcript has '{}' as character {}; accepted: a..z, A..Z, apostrophes and spaces", utf8_of({&given[i], 1}), i + 1));
    if (c != U' ' || !(out.empty() || out.back() == ' ')) out += static_cast<char>(c);
  }
  if (out.ends_with(' ')) out.pop_back();
  if (out.empty()) throw DataError("its transcript is empty; accepted: a..z, A..Z, apostrophes and spaces");
  return out;
}

std::int64_t class_of(char c) { return static_cast<std::int64_t>(kAlphabet.find(c)) + 1; }

std::string text_of(std::span<const std::int64_t> classes) {
  std::string out;
  for (const std::int64_t c : classes) out += kAlphabet[at(c - 1)];
  return out;
}

std::int64_t least_classes(std::string_view text) {
  auto out = std::ssize(text);
  for (std::size_t i = 1; i < text.size(); ++i) out += text[i] == text[i - 1];
  return out;
}

}  // namespace gemel::datasets
