// What cases a selection means, and what a study with fewer cases still asks.
#include "frontends/study/study.h"

#include <algorithm>
#include <cmath>

namespace gemel::study {

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
  std::erase_if(study.hypotheses, [&](const Hypothesis& h) { return !has(h.where, h.a) || !has(h.where, h.b); });
  study.least_repeats = least_blocks(study.hypotheses.size());
}

Study without_peers(Study study) {
  std::erase_if(study.cases, [](const Case& c) { return c.is_of_peer(); });
  drop_what_has_no_cases(study);
  return study;
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
