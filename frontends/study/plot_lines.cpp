#include "frontends/study/plot_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "frontends/study/statistics/bootstrap.h"

namespace gemel::study {
namespace {

std::string name_of(const Case& c, const std::vector<std::string>& factors) {
  std::vector<std::string> names;
  for (const std::string& factor : factors)
    if (c.factors.contains(factor)) names.push_back(word_of(c.factor(factor)));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<Json> told(const ProcessRecord& run, const Curve& curve) {
  return curve.of_usage ? run.usage : std::vector<Json>(run.epochs.begin(), run.epochs.end());
}

Point point_of(const std::vector<double>& x, const std::vector<double>& y) {
  const bool has_interval = std::ssize(y) >= kLeastProcesses;
  return {median(x), median(y), has_interval ? median_interval(y) : range(y)};
}

}  // namespace

std::vector<Line> lines_of(const Plot& plot, const Study& study, const Results& results) {
  std::vector<Line> out;
  for (const Case* c : study.selected(plot.where, plot.lines)) {
    const Estimate e = results.estimate(*c, plot.metric);
    const Estimate x = c->factors.contains(plot.x) ? Estimate() : results.estimate(*c, plot.x);
    if (!e.gap.empty() || !x.gap.empty()) continue;
    const std::string name = name_of(*c, plot.lines);
    auto it = std::ranges::find(out, name, &Line::name);
    if (it == out.end()) it = out.insert(out.end(), Line{name, {}});
    it->points.push_back({c->factors.contains(plot.x) ? c->factor(plot.x).get<double>() : x.median, e.median, e.interval});
  }
  for (Line& line : out) std::ranges::sort(line.points, {}, &Point::x);
  return out;
}

std::vector<Line> lines_of(const Curve& curve, const Study& study, const Results& results) {
  struct Values {
    std::vector<double> x, y;  // of the processes
  };
  std::vector<Line> out;
  for (const Case* c : study.selected(curve.where, curve.lines)) {
    std::map<std::size_t, Values> by_place;
    for (const ProcessRecord* run : results.runs_of(*c)) {
      const std::vector<Json> lines = told(*run, curve);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        if (!lines[i].value(curve.x, Json()).is_number() || !lines[i].value(curve.y, Json()).is_number()) continue;
        by_place[i].x.push_back(lines[i][curve.x].get<double>());
        by_place[i].y.push_back(lines[i][curve.y].get<double>());
      }
    }
    if (by_place.empty()) continue;
    Line line{name_of(*c, curve.lines), {}};
    for (const auto& [place, values] : by_place) line.points.push_back(point_of(values.x, values.y));
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace gemel::study
