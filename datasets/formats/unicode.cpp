#include "datasets/formats/unicode.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace gemel::datasets {
namespace {

constexpr char32_t kAsciiEnd = 0x80;

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

/// The categories first..last of utf8proc's order.
bool is_from(char32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  const auto of = category(c);
  return of >= first && of <= last;
}

int combining_class(char32_t c) { return c < 0x300 ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class; }

}  // namespace

std::u32string code_points(std::string_view utf8) {
  std::u32string out;
  out.reserve(utf8.size());
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(utf8.data());
  for (std::size_t i = 0; i < utf8.size();) {
    if (bytes[i] < kAsciiEnd) {
      out.push_back(bytes[i++]);
      continue;
    }
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes + i, static_cast<utf8proc_ssize_t>(utf8.size() - i), &c);
    if (length <= 0) throw DataError(fmt::format("text: byte {} (0x{:02x}) is not UTF-8", i, bytes[i]));
    out.push_back(static_cast<char32_t>(c));
    i += static_cast<std::size_t>(length);
  }
  return out;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < kAsciiEnd) {
    out.push_back(static_cast<char>(c));
    return;
  }
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(length));
}

std::string utf8_of(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

bool is_white_space(char32_t c) {
  if (c < kAsciiEnd) return c == ' ' || (c >= 0x09 && c <= 0x0d);
  return c == 0x85 || is_from(c, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}
bool is_other(char32_t c) {
  return c < kAsciiEnd ? c < 0x20 || c == 0x7f : category(c) == UTF8PROC_CATEGORY_CN || is_from(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}
bool is_punctuation(char32_t c) { return is_from(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO); }
bool is_letter(char32_t c) { return is_from(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO); }
bool is_number(char32_t c) { return is_from(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }
bool is_nonspacing_mark(char32_t c) { return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN; }

std::u32string decomposed(std::u32string_view text) {
  constexpr int kMost = 18;  // code points of one: U+FDFA has as many in its compatibility form
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    if (c < 0xc0) {
      out.push_back(c);
      continue;
    }
    std::array<utf8proc_int32_t, kMost> parts{};
    int last_class = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(), kMost, UTF8PROC_DECOMPOSE, &last_class);
    if (count < 0 || count > kMost) throw InternalError(fmt::format("text: U+{:04X} cannot be decomposed", static_cast<std::uint32_t>(c)));
    for (utf8proc_ssize_t i = 0; i < count; ++i) out.push_back(static_cast<char32_t>(parts[static_cast<std::size_t>(i)]));
  }
  // Marks behind each other are sorted by their class.
  for (std::size_t i = 0; i < out.size();) {
    if (combining_class(out[i]) == 0) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < out.size() && combining_class(out[end]) != 0) ++end;
    std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(i), out.begin() + static_cast<std::ptrdiff_t>(end),
                     [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
  return out;
}

void append_lower(std::u32string& out, char32_t c) {
  if (c < kAsciiEnd) {
    out.push_back(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    return;
  }
  if (c == 0x130) {
    out += U"i\u0307";
    return;
  }
  out.push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace gemel::datasets
