#include "frontends/monitor/page_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"

namespace gemel::monitor {
namespace {

constexpr std::string_view kHere = "<!-- styles and scripts -->";

std::string page(const std::string& head) {
  const auto index = std::ranges::find(page_files(), "index.html", &PageFile::name);
  if (index == page_files().end()) throw InternalError("monitor: the page is not in the program");
  std::string out(index->text);
  const auto at = out.find(kHere);
  if (at == out.npos) throw InternalError("monitor: the page has no place for its scripts");
  return out.replace(at, kHere.size(), head);
}

/// JSON in which nothing ends a script's element.
std::string within_script(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json)
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

}  // namespace

bool has_plotting_library() {
  return std::ranges::any_of(page_files(), [](const PageFile& file) { return file.name.starts_with("dygraph"); });
}

std::string live_page() {
  std::string head;
  for (const PageFile& file : page_files()) {
    if (file.is_style()) head += fmt::format("<link rel=\"stylesheet\" href=\"{}\">\n", file.name);
    if (file.is_script()) head += fmt::format("<script defer src=\"{}\"></script>\n", file.name);
  }
  return page(head);
}

std::string page_with(const std::string& data) {
  std::string head =
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">\n";
  for (const PageFile& file : page_files())
    if (file.is_style()) head += fmt::format("<style>{}</style>\n", file.text);
  head += fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", within_script(data));
  // Scripts that are in the page cannot wait for it by themselves.
  for (const PageFile& file : page_files())
    if (file.is_script()) head += fmt::format("<script>{}\n</script>\n", file.text);
  return page(head);
}

}  // namespace gemel::monitor
