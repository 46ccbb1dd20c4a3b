// Checks that ranks run the same settings and hold the same values; differences are reported as a table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/base/numbers.h"
#include "frontends/distributed/data_parallel.h"

namespace gemel::distributed {
namespace {

constexpr char kSeparator = '\0';

std::string text_of(const std::vector<Setting>& settings) {
  std::string out;
  for (const Setting& s : settings) out += s.name + kSeparator + s.value + kSeparator;
  return out;
}

std::vector<Setting> settings_in(std::string_view text) {
  std::vector<Setting> out;
  const auto next = [&text] {
    const std::string_view field = text.substr(0, text.find(kSeparator));
    text.remove_prefix(std::min(text.size(), field.size() + 1));  // the last separator is missing of a text cut short
    return std::string(field);
  };
  while (!text.empty()) {
    std::string name = next();
    out.push_back({std::move(name), next()});
  }
  return out;
}

}  // namespace

std::vector<std::string> texts_of_ranks(parallel::CommunicationThread& communication, const std::string& mine) {
  std::vector<std::string> out;
  for (const auto& bytes : communication.run([&mine](parallel::Collectives& c) { return c.all_gather(std::as_bytes(std::span(mine))); }))
    out.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return out;
}

void require_same(parallel::CommunicationThread& communication, const std::vector<Setting>& settings) {
  const std::string mine = text_of(settings);
  const std::vector<std::string> all = texts_of_ranks(communication, mine);
  std::map<std::string, std::map<std::string, std::vector<int>>> ranks_of;  // [name][value]; a rank without the name is in none
  std::vector<std::string> order;
  for (int r = 0; r < communication.size(); ++r) {
    for (const Setting& s : settings_in(all[static_cast<std::size_t>(r)])) {
      if (!ranks_of.contains(s.name)) order.push_back(s.name);
      ranks_of[s.name][s.value].push_back(r);
    }
  }
  std::string wrong;
  for (const std::string& name : order) {
    const auto& values = ranks_of[name];
    if (values.size() == 1 && static_cast<int>(values.begin()->second.size()) == communication.size()) continue;
    wrong += fmt::format("\n  {}:", name);
    std::size_t with = 0;
    for (const auto& [value, ranks] : values) {
      wrong += fmt::format("\n    rank{} {}: {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "), value);
      with += ranks.size();
    }
    if (static_cast<int>(with) < communication.size())
      wrong += fmt::format("\n    {} of {} ranks: none", communication.size() - static_cast<int>(with), communication.size());
  }
  if (!wrong.empty()) throw CommError("ranks: they do not run the same; accepted: on every rank the same value of" + wrong);
}

std::vector<NamedValue> all_of(const ParameterSet& set) {
  std::vector<NamedValue> out(set.parameters().begin(), set.parameters().end());
  out.insert(out.end(), set.buffers().begin(), set.buffers().end());
  return out;
}

void require_same_contents(parallel::CommunicationThread& communication, const std::vector<NamedValue>& values, const std::vector<int>& ranks,
                           parallel::Collectives* among) {
  std::vector<std::uint64_t> mine;
  for (const NamedValue& v : values) mine.push_back(hash_of(read_bytes(v.value)));
  const auto all = communication.run([&](parallel::Collectives& c) { return (among ? *among : c).all_gather(std::as_bytes(std::span(mine))); });
  const std::size_t first = static_cast<std::size_t>(std::ranges::find_if(all, [](const auto& theirs) { return !theirs.empty(); }) - all.begin());
  for (std::size_t k = first + 1; k < all.size(); ++k)
    for (std::size_t i = 0; i < values.size() && !all[k].empty(); ++i) {  // one that has joined says nothing
      if (std::memcmp(all[k].data() + i * sizeof mine[0], all[first].data() + i * sizeof mine[0], sizeof mine[0]) == 0) continue;
      throw CommError(fmt::format("ranks: {} is not the same on rank {} ({}) as on rank {}; accepted: the same parameters and buffers on both", values[i].name,
                                  ranks[k], communication.placement().hosts[at(ranks[k])], ranks[first]));
    }
}

}  // namespace gemel::distributed
