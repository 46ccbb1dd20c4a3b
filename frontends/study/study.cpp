// What cases a selection means, and what a study with fewer cases still asks.
#include "frontends/study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>
#include <set>

#include "engine/base/error.h"

namespace gemel::study {
namespace {

std::vector<std::string> factors_of(const Selection& a, const Selection& b) {
  std::vector<std::string> out;
  for (const Selection* s : {&a, &b})
    for (const auto& [factor, value] : s->items())
      if (std::ranges::count(out, factor) == 0) out.push_back(factor);
  return out;
}

/// Of cases that are alike in what the hypothesis does not name; null: none.
const Case* only(const std::vector<const Case*>& group, const Selection& what, const char* side) {
  const Case* out = nullptr;
  for (const Case* c : group) {
    if (!fits(*c, what)) continue;
    if (out)
      throw UsageError(fmt::format("{} is {}, which both {} and {} have; accepted: axes and values that leave one case to compare with", side, what.dump(),
                                   out->name, c->name));
    out = c;
  }
  return out;
}

}  // namespace

std::vector<std::vector<const Case*>> alike_but_for(const std::vector<const Case*>& cases, const std::vector<std::string>& factors) {
  struct Group {
    Json rest;
    std::vector<const Case*> cases;
  };
  std::vector<Group> groups;
  for (const Case* c : cases) {
    Json rest = c->factors;
    for (const std::string& factor : factors) rest.erase(factor);
    auto it = std::ranges::find_if(groups, [&](const Group& group) { return group.rest == rest; });
    if (it == groups.end()) it = groups.insert(groups.end(), Group{rest, {}});
    it->cases.push_back(c);
  }
  std::vector<std::vector<const Case*>> out;
  for (Group& group : groups) out.push_back(std::move(group.cases));
  return out;
}

std::vector<CasePair> pairs_of(const Hypothesis& h, const Study& study) {
  std::vector<CasePair> out;
  for (const auto& group : alike_but_for(study.selected(h.where), factors_of(h.a, h.b))) {
    const Case *a = only(group, h.a, "a"), *b = only(group, h.b, "b");
    if (a && b) out.push_back({a, b});
  }
  return out;
}

bool has_no_shared_levels(const Hypothesis& h, const Study& study) {
  std::map<double, int> groups_with;  // by level
  int groups = 0;
  for (const auto& cases : alike_but_for(study.selected(h.where), {h.over})) {
    std::set<double> levels;
    for (const Case* c : cases)
      if (c->factor(h.over).is_number()) levels.insert(c->factor(h.over).get<double>());
    if (levels.size() < 2) continue;
    ++groups;
    for (const double level : levels) ++groups_with[level];
  }
  return groups > 0 && std::ranges::count(groups_with | std::views::values, groups) < 2;
}

int least_blocks(std::size_t hypotheses) {
  int blocks = 6;
  while (static_cast<double>(hypotheses) * std::ldexp(2, -blocks) >= 0.05) ++blocks;
  return blocks;
}

void drop_what_has_no_cases(Study& study) {
  const auto has = [&](Selection where, const Selection& what = Json::object()) {
    where.update(what);
    return !study.selected(where).empty();
  };
  std::erase_if(study.tables, [&](const Table& table) { return study.selected(table.where, table.rows).empty(); });
  for (Table& table : study.tables)
    if (!table.base.is_null() && !has(table.where, table.base)) table.base = nullptr;
  std::erase_if(study.plots, [&](const Plot& plot) { return study.selected(plot.where, plot.lines).empty(); });
  std::erase_if(study.curves, [&](const Curve& curve) { return study.selected(curve.where, curve.lines).empty(); });
  std::erase_if(study.knees, [&](const Knee& knee) { return study.selected(knee.where, knee.lines).empty(); });
  std::erase_if(study.hypotheses, [&](const Hypothesis& h) { return h.method == Method::ratio ? pairs_of(h, study).empty() : !has(h.where); });
  study.least_repeats = least_blocks(study.hypotheses.size());
}

Study without_peers(Study study) {
  std::erase_if(study.cases, [](const Case& c) { return c.is_of_peer(); });
  drop_what_has_no_cases(study);
  return study;
}

void Case::refuse(const Study& study, const std::string& key, const std::string& what) const {
  const auto found = lines.find(key);
  throw UsageError(fmt::format("study: {}:{}: case {}: {}", study.file, found == lines.end() ? line : found->second, name, what));
}

std::vector<const Case*> Study::selected(const Selection& where, const std::vector<std::string>& with) const {
  std::vector<const Case*> out;
  for (const Case& c : cases)
    if (fits(c, where) && std::ranges::all_of(with, [&](const std::string& factor) { return c.factors.contains(factor); })) out.push_back(&c);
  return out;
}

bool fits(const Case& c, const Selection& where) {
  for (const auto& [factor, value] : where.items())
    if (c.factor(factor) != value) return false;
  return true;
}

std::string word_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump(); }

}  // namespace gemel::study
