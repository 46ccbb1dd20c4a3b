#include "frontends/study/report/knees.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/numbers.h"

namespace gemel::study {
namespace {

std::string shown(double size, double largest) { return std::isinf(size) ? fmt::format("above {:g}", largest) : fmt::format("{:g}", size); }

Json json_of(double size) { return std::isinf(size) ? Json() : Json(size); }

FoundKnee found_in(const std::vector<const Case*>& group, const Knee& knee, const Results& results) {
  FoundKnee out;
  for (const std::string& factor : knee.lines) out.line.push_back(word_of(group[0]->factor(factor)));
  std::vector<std::pair<double, std::vector<double>>> by_size;
  for (const Case* c : group) {
    const Estimate e = results.estimate(*c, knee.metric);
    if (!e.gap.empty()) {
      out.gap = fmt::format("{}: {}", c->name, e.gap);
      return out;
    }
    by_size.emplace_back(c->factor(knee.over).get<double>(), results.sample(*c, knee.metric));
  }
  std::ranges::sort(by_size);
  if (by_size.size() < 2) {
    out.gap = "one size alone";
    return out;
  }
  std::vector<double> sizes;
  Samples costs;
  for (auto& [size, values] : by_size) {
    out.n = static_cast<int>(costs.empty() ? values.size() : std::min(at(out.n), values.size()));
    sizes.push_back(size);
    costs.push_back(std::move(values));
  }
  out.largest = sizes.back();
  out.estimate = knee_of_medians(sizes, costs, knee.saves);
  return out;
}

}  // namespace

std::string FoundKnee::text() const {
  if (!gap.empty()) return gap;
  const std::string knee = shown(estimate.knee, largest);
  if (n < kLeastProcesses) return fmt::format("{} (fewer than {} processes: no interval)", knee, kLeastProcesses);
  if (estimate.interval.low == estimate.interval.high) return knee + " (no other)";
  return fmt::format("{} ({} to {})", knee, shown(estimate.interval.low, largest), shown(estimate.interval.high, largest));
}

std::vector<FoundKnee> knees_of(const Knee& knee, const Study& study, const Results& results) {
  std::vector<std::string> with = knee.lines;
  with.push_back(knee.over);
  std::vector<FoundKnee> out;
  for (const auto& group : alike_but_for(study.selected(knee.where, with), {knee.over})) out.push_back(found_in(group, knee, results));
  return out;
}

Grid grid_of(const Knee& knee, const std::vector<FoundKnee>& found) {
  Grid out{.caption = fmt::format("{}: the least {} from which on each doubling saves less than {:g} % of {}, by medians; in brackets 95 % of 9999 resamplings "
                                  "of the processes of each case",
                                  knee.caption, knee.over, 100 * knee.saves, knee.metric),
           .head = knee.lines,
           .rows = {}};
  out.head.push_back("knee");
  for (const FoundKnee& one : found) {
    out.rows.push_back(one.line);
    out.rows.back().push_back(one.text());
  }
  return out;
}

Json json_of(const Knee& knee, const std::vector<FoundKnee>& found) {
  Json lines = Json::array();
  for (const FoundKnee& one : found) {
    Json line = Json::object();
    for (std::size_t i = 0; i < knee.lines.size(); ++i) line[knee.lines[i]] = one.line[i];
    line["n"] = one.n;
    if (!one.gap.empty()) {
      line["gap"] = one.gap;
    } else {
      line["largest"] = one.largest;
      line["knee"] = json_of(one.estimate.knee);
      if (one.n >= kLeastProcesses) line["interval"] = {json_of(one.estimate.interval.low), json_of(one.estimate.interval.high)};
    }
    lines.push_back(std::move(line));
  }
  return {{"name", knee.name}, {"metric", knee.metric}, {"over", knee.over}, {"saves", knee.saves}, {"lines", std::move(lines)}};
}

}  // namespace gemel::study
