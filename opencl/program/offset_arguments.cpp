#include "opencl/program/offset_arguments.h"

#include <fmt/format.h>

#include <map>
#include <regex>
#include <sstream>
#include <string_view>

namespace gemel::opencl {
namespace {

/// Macros without parameters that stand for parameters with pointers. The first definition counts: epilogue.clh defines what is not there yet.
std::map<std::string, std::string> pointer_macros(const std::string& source) {
  constexpr std::string_view kDefine = "#define ";
  std::map<std::string, std::string> out;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kDefine)) continue;
    std::string text = line.substr(kDefine.size());
    while (text.ends_with('\\') && std::getline(lines, line)) text.replace(text.size() - 1, 1, line);
    const auto name_end = text.find_first_of(" (");
    const std::string name = text.substr(0, name_end);
    if (name_end == std::string::npos || text[name_end] == ' ') out.emplace(name, text.substr(name.size()));
  }
  std::erase_if(out, [](const auto& macro) { return macro.second.find('*') == std::string::npos; });
  return out;
}

/// With these macros replaced by what they stand for, once: none names another.
std::string expanded(const std::string& parameters, const std::map<std::string, std::string>& macros) {
  static const std::regex name("\\w+");
  std::string out;
  auto from = parameters.cbegin();
  for (std::sregex_iterator n(parameters.begin(), parameters.end(), name), end; n != end; ++n) {
    const auto macro = macros.find(n->str());
    if (macro == macros.end()) continue;
    out.append(from, (*n)[0].first);
    out += macro->second;
    from = (*n)[0].second;
  }
  return out.append(from, parameters.cend());
}

/// The place of the bracket that closes the one at `open`.
std::size_t closing(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return i;
  }
  return text.size();
}

}  // namespace

std::string parameters_behind(const std::string& source, std::size_t open) {
  return expanded(source.substr(open + 1, closing(source, open) - open - 1), pointer_macros(source));
}

std::string with_offset_arguments(const std::string& source) {
  static const std::regex head("__kernel\\b[^;{}]*?\\bvoid\\s+\\w+\\s*\\("), pointer("(__global[^,*]*\\*)\\s*(?:restrict\\s+)?(\\w+)");
  const auto macros = pointer_macros(source);
  std::string out;
  auto from = source.cbegin();
  for (std::smatch found; std::regex_search(from, source.cend(), found, head);) {
    const auto open = static_cast<std::size_t>(found[0].second - source.cbegin()) - 1, close = closing(source, open), body = source.find('{', close);
    if (body == std::string::npos) break;
    const std::string parameters = expanded(source.substr(open + 1, close - open - 1), macros);
    std::string moves;
    for (std::sregex_iterator p(parameters.begin(), parameters.end(), pointer), end; p != end; ++p)
      moves += fmt::format(" {0} = ({1})((__global const char*){0} + {0}_offset);", (*p)[2].str(), (*p)[1].str());
    out.append(from, found[0].second);
    out += std::regex_replace(parameters, pointer, "$&, const ulong $2_offset") + source.substr(close, body + 1 - close) + moves;
    from = source.cbegin() + static_cast<std::ptrdiff_t>(body) + 1;
  }
  return out.append(from, source.cend());
}

}  // namespace gemel::opencl
