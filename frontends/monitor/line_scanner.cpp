#include "frontends/monitor/line_scanner.h"

#include <charconv>
#include <cmath>
#include <cstddef>

namespace gemel::monitor {
namespace {

constexpr std::string_view kEvent = "event";

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool object(Line& out) {
    blanks();
    if (!take('{')) return false;
    blanks();
    if (take('}')) return at_end();
    do {
      blanks();
      std::string_view key;
      if (!string(key)) return false;
      blanks();
      if (!take(':')) return false;
      blanks();
      if (!member(key, out)) return false;
      blanks();
    } while (take(','));
    return take('}') && at_end();
  }

 private:
  bool at_end() {
    blanks();
    return at_ == text_.size();
  }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void blanks() {
    while (at_ != text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  /// What stands between the quotes, escapes as they are written.
  bool string(std::string_view& out) {
    if (!take('"')) return false;
    const std::size_t begin = at_;
    for (;;) {
      at_ = text_.find_first_of("\"\\", at_);
      if (at_ == text_.npos) return false;
      if (text_[at_] == '"') break;
      at_ += 2;
      if (at_ > text_.size()) return false;
    }
    out = text_.substr(begin, at_ - begin);
    ++at_;
    return true;
  }
  bool member(std::string_view key, Line& out) {
    if (at_ == text_.size()) return false;
    const char c = text_[at_];
    if (c == '"') {
      std::string_view value;
      if (!string(value)) return false;
      if (key == kEvent) out.event = value;
      return true;
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
      double value = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (end == text_.data() + at_) return false;
      at_ = static_cast<std::size_t>(end - text_.data());
      if (error == std::errc() && std::isfinite(value)) out.numbers.emplace_back(key, value);
      return true;
    }
    return c == '{' || c == '[' ? nested() : word();
  }
  bool word() {
    for (const std::string_view one : {"null", "true", "false"})
      if (text_.substr(at_).starts_with(one)) {
        at_ += one.size();
        return true;
      }
    return false;
  }
  bool nested() {
    std::size_t depth = 0;
    do {
      at_ = text_.find_first_of("\"{}[]", at_);
      if (at_ == text_.npos) return false;
      const char c = text_[at_];
      if (c == '"') {
        std::string_view passed;
        if (!string(passed)) return false;
        continue;
      }
      ++at_;
      depth = c == '{' || c == '[' ? depth + 1 : depth - 1;
    } while (depth > 0);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

double Line::number(std::string_view name, double otherwise) const {
  for (const auto& [key, value] : numbers)
    if (key == name) return value;
  return otherwise;
}

bool scan(std::string_view line, Line& out) {
  out.event = {};
  out.numbers.clear();
  return Scanner(line).object(out);
}

}  // namespace gemel::monitor
