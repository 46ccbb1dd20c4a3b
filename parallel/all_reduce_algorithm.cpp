#include "parallel/all_reduce_algorithm.h"

#include <fmt/format.h>

#include <charconv>

#include "engine/base/error.h"

namespace gemel::parallel {
namespace {

constexpr std::pair<Algorithm, std::string_view> kNames[] = {{Algorithm::ring, "ring"},
                                                             {Algorithm::tree, "tree"},
                                                             {Algorithm::shared, "shared"},
                                                             {Algorithm::hierarchical, "hierarchical"},
                                                             {Algorithm::carrier, "mpi"}};

std::optional<Algorithm> find(std::string_view name) {
  for (const auto& [algorithm, known] : kNames)
    if (known == name) return algorithm;
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Algorithm algorithm) {
  for (const auto& [known, name] : kNames)
    if (known == algorithm) return name;
  return "";
}

std::optional<Algorithm> parse_algorithm(std::string_view name) {
  if (name == "auto") return std::nullopt;
  if (const auto found = find(name)) return found;
  throw UsageError(fmt::format("collective: there is no algorithm '{}'; accepted: auto, ring, tree, shared, hierarchical, mpi", name));
}

const Limits::Range& Limits::at(std::int64_t bytes) const {
  const Range* out = &ranges.front();
  for (const Range& r : ranges)
    if (bytes >= r.from) out = &r;
  return *out;
}

std::string to_string(const Limits& limits) {
  std::string out = fmt::format("halving {}", limits.halving_from);
  for (const Limits::Range& r : limits.ranges) out += fmt::format(", {} {}", to_string(r.algorithm), r.from);
  return out;
}

Limits parse_limits(std::string_view text) {
  Limits out{{}, -1};
  const auto refuse = [text] { throw DataError(fmt::format("collective: the limits '{}' cannot be read", text)); };
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(", "));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 2));
    const std::size_t space = entry.find(' ');
    std::int64_t bytes = -1;
    if (space == std::string_view::npos || std::from_chars(entry.data() + space + 1, entry.data() + entry.size(), bytes).ec != std::errc() || bytes < 0)
      refuse();
    const std::string_view name = entry.substr(0, space);
    if (name == "halving")
      out.halving_from = bytes;
    else if (const auto algorithm = find(name))
      out.ranges.push_back({bytes, *algorithm});
    else
      refuse();
  }
  if (out.halving_from < 0 || out.ranges.empty() || out.ranges.front().from != 0) refuse();
  return out;
}

}  // namespace gemel::parallel
