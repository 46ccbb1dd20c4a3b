#include "frontends/cli/doctor/print_findings.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace gemel::cli {
namespace {

using Json = nlohmann::ordered_json;

std::size_t width_of_output() {
  constexpr std::size_t kLeast = 60, kUsual = 100, kMost = 120;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return std::clamp<std::size_t>(size.ws_col, kLeast, kMost);
}

bool takes_colours() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR") && terminal && std::string_view(terminal) != "dumb";
}

/// What libraries print may hold anything; here a line is a line.
std::string plain(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

class Page {
 public:
  explicit Page(const std::vector<Line>& lines) {
    for (const Line& l : lines) name_width_ = std::max(name_width_, l.name.size());
  }
  void print(const Line& line) const {
    const std::string status = fmt::format("{:<5}", to_string(line.finding.health));
    const std::size_t indent = name_width_ + 2 + 5 + 2, width = width_ - std::min(width_ - 20, indent);
    std::string before = fmt::format("{:<{}}  {}  ", line.name, name_width_, in_colour(status, line.finding.health));
    for (const std::string& part : wrapped(plain(line.finding.found), width)) {
      fmt::print("{}{}\n", before, part);
      before = std::string(indent, ' ');
    }
    if (!line.finding.remedy.empty()) fmt::print("{:{}}-> {}\n", "", indent, plain(line.finding.remedy));  // a command is copied whole
  }
  std::string in_colour(const std::string& text, Health health) const {
    if (!colours_) return text;
    return fmt::format("\x1b[{}m{}\x1b[0m", health == Health::ok ? "32" : health == Health::odd ? "33" : "1;31", text);
  }

 private:
  std::size_t name_width_ = 0, width_ = width_of_output();
  bool colours_ = takes_colours();
};

}  // namespace

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> out;
  while (text.size() > width) {
    std::size_t cut = text.rfind(' ', width);
    if (cut == std::string_view::npos) cut = text.find(' ');
    if (cut == std::string_view::npos) break;
    out.emplace_back(text.substr(0, cut));
    text.remove_prefix(cut + 1);
  }
  out.emplace_back(text);
  return out;
}

void print_json(const std::vector<Line>& lines) {
  Json checks = Json::array();
  for (const Line& l : lines)
    checks.push_back({{"name", l.name}, {"status", to_string(l.finding.health)}, {"found", l.finding.found}, {"remedy", l.finding.remedy}});
  fmt::print("{}\n", Json{{"checks", checks}}.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_lines(const std::vector<Line>& lines) {
  const Page page(lines);
  for (const Line& l : lines) page.print(l);
  const auto count = [&](Health health) { return std::ranges::count(lines, health, [](const Line& l) { return l.finding.health; }); };
  const auto wrong = count(Health::wrong), odd = count(Health::odd);
  fmt::print("\n{}; {}\n", wrong == 0 ? "nothing is wrong" : fmt::format("{} {} wrong: Gemel cannot run, or runs wrongly", wrong, wrong == 1 ? "is" : "are"),
             odd == 0 ? "nothing is odd" : fmt::format("{} {} odd: it is slower, or has less", odd, odd == 1 ? "is" : "are"));
}

}  // namespace gemel::cli
