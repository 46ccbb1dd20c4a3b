#include "datasets/formats/utf8_stream.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace gemel::datasets {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// By its first byte: how many bytes a character has, and from what to what its second one goes (Unicode 15, table 3-7). Length 0: it is none.
struct Form {
  std::size_t length;
  unsigned char low = 0x80, high = 0xbf;
};
Form form_of(unsigned char first) {
  if (first < 0x80) return {1};
  if (first < 0xc2) return {0};
  if (first < 0xe0) return {2};
  if (first < 0xf0) return {3, static_cast<unsigned char>(first == 0xe0 ? 0xa0 : 0x80), static_cast<unsigned char>(first == 0xed ? 0x9f : 0xbf)};
  if (first < 0xf5) return {4, static_cast<unsigned char>(first == 0xf0 ? 0x90 : 0x80), static_cast<unsigned char>(first == 0xf4 ? 0x8f : 0xbf)};
  return {0};
}

/// How many bytes from the first on belong to one character, up to its length.
std::size_t fitting(std::string_view bytes, const Form& form) {
  std::size_t n = 1;
  for (; n < std::min(form.length, bytes.size()); ++n) {
    const auto byte = static_cast<unsigned char>(bytes[n]);
    if (byte < (n == 1 ? form.low : 0x80) || byte > (n == 1 ? form.high : 0xbf)) break;
  }
  return n;
}

}  // namespace

std::string Utf8Pieces::add(std::string_view bytes) {
  begun_ += bytes;
  std::string out;
  std::string_view rest = begun_;
  while (!rest.empty()) {
    const Form form = form_of(static_cast<unsigned char>(rest[0]));
    const std::size_t n = fitting(rest, form);
    if (n < form.length && n == rest.size()) break;
    out += n == form.length ? rest.substr(0, n) : kReplacement;
    rest.remove_prefix(n);
  }
  begun_ = std::string(rest);
  return out;
}

std::string Utf8Pieces::end() { return std::exchange(begun_, {}).empty() ? "" : std::string(kReplacement); }

}  // namespace gemel::datasets
