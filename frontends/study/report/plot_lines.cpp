#include "frontends/study/report/plot_lines.h"

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

/// The least of the metric that a case can reach: by the operations of its step, or by reading each parameter once. Empty where these are not known.
std::optional<double> bound_of(const Case& c, const std::string& metric, const Results& results, const DevicePeak& peak) {
  const Estimate flops = results.estimate(c, "flops"), parameters = results.estimate(c, "parameters"), batch = results.estimate(c, "batch_size");
  if (!flops.gap.empty() || !parameters.gap.empty() || !batch.gap.empty()) return std::nullopt;
  constexpr double kBytes = 4;  // of a parameter
  const double seconds = std::max(flops.median / peak.flops, kBytes * parameters.median / peak.read_bytes);
  return metric == "samples_per_s" ? batch.median / seconds : 1000 * seconds / (metric == "ms_per_sample" ? batch.median : 1);
}

}  // namespace

std::vector<Line> lines_of(const Plot& plot, const Study& study, const Results& results, const std::optional<DevicePeak>& peak) {
  std::vector<Line> out;
  const auto is_factor = [&](const Case* c) { return c->factors.contains(plot.x); };
  for (const Case* c : study.selected(plot.where, plot.lines)) {
    const Estimate e = results.estimate(*c, plot.metric);
    const Estimate x = is_factor(c) ? Estimate() : results.estimate(*c, plot.x);
    if (!e.gap.empty() || !x.gap.empty()) continue;
    const std::string name = name_of(*c, plot.lines);
    auto it = std::ranges::find(out, name, &Line::name);
    if (it == out.end()) it = out.insert(out.end(), Line{.name = name, .points = {}, .bound = {}, .is_joined = is_factor(c)});
    const double at = is_factor(c) ? c->factor(plot.x).get<double>() : x.median;
    it->points.push_back({at, e.median, e.interval});
    if (!plot.has_bound || !peak) continue;
    if (const auto bound = bound_of(*c, plot.metric, results, *peak)) it->bound.push_back({at, *bound, {*bound, *bound}});
  }
  for (Line& line : out)
    for (std::vector<Point>* points : {&line.points, &line.bound}) std::ranges::sort(*points, {}, &Point::x);
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
    Line line{.name = name_of(*c, curve.lines), .points = {}, .bound = {}};
    for (const auto& [place, values] : by_place) line.points.push_back(point_of(values.x, values.y));
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace gemel::study
