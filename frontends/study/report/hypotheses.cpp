#include "frontends/study/report/hypotheses.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "frontends/study/statistics/correlation.h"
#include "frontends/study/statistics/normality.h"
#include "frontends/study/statistics/several_samples.h"
#include "frontends/study/statistics/two_samples.h"

namespace gemel::study {
namespace {

constexpr double kLevel = 0.05;

/// Logarithms of the ratio a over b in each block that has all pairs, in the mean over the pairs of cases that are alike in the other factors.
std::vector<double> log_ratios(const Hypothesis& h, const Study& study, const Results& results, std::size_t& pairs) {
  std::map<int, std::vector<double>> by_block;
  pairs = 0;
  for (const auto& [a, b] : pairs_of(h, study)) {
    const auto of_a = results.values(*a, h.metric), of_b = results.values(*b, h.metric);
    if (of_a.empty() || of_b.empty()) continue;  // a gap, which the table shows
    ++pairs;
    for (const auto& [block, value] : of_a)
      if (const auto other = of_b.find(block); other != of_b.end() && value > 0 && other->second > 0)
        by_block[block].push_back(std::log(value / other->second));
  }
  std::vector<double> out;
  for (const auto& [block, all] : by_block)
    if (all.size() == pairs) out.push_back(mean(all));
  return out;
}

/// Of cases without which there is nothing to compare. @param but  what those that were measured lack
std::string lack_of(const std::vector<const Case*>& cases, const Hypothesis& h, const Results& results, const std::string& but) {
  constexpr std::size_t kMostNames = 4;
  std::vector<std::string> measured;
  for (const Case* c : cases)
    if (!results.values(*c, h.metric).empty()) measured.push_back(c->name);
  if (measured.empty()) return fmt::format("No {} was measured of its {} cases: see the gaps.", h.metric, cases.size());
  const std::string names = measured.size() < cases.size() && measured.size() <= kMostNames ? fmt::format(" ({})", fmt::join(measured, ", ")) : "";
  return fmt::format("{} was measured of {} of its {} cases{}, but {}: nothing is decided, see the gaps.", h.metric, measured.size(), cases.size(), names, but);
}

std::string lack_of_ratio(const Hypothesis& h, const Study& study, const Results& results, std::size_t measured_pairs) {
  std::set<const Case*> cases;  // as they lie in the study
  for (const auto& [a, b] : pairs_of(h, study)) cases.insert({a, b});
  return lack_of(
      {cases.begin(), cases.end()}, h, results,
      measured_pairs == 0 ? "of no two that it compares" : fmt::format("there is no block in which all {} pairs that it compares were", measured_pairs));
}

Verdict by_ratio(const Hypothesis& h, const Study& study, const Results& results, Verdict v) {
  std::size_t pairs = 0;
  const std::vector<double> logs = log_ratios(h, study, results, pairs);
  v.n = static_cast<int>(logs.size());
  v.method = pairs == 1 ? "ratio in each block; sign-flip test"
                        : fmt::format("ratio in each block, in the geometric mean of {} pairs of cases; sign-flip test", pairs);
  if (logs.empty()) {
    v.lack = lack_of_ratio(h, study, results, pairs);
    return v;
  }
  v.effect = std::exp(mean(logs));
  if (v.n < kLeastProcesses) {
    const Interval logs_range = range(logs);
    v.interval = Interval{std::exp(logs_range.low), std::exp(logs_range.high)};
    return v;
  }
  const MeanDifference d = paired(logs);
  const Interval interval = d.interval(1 - kLevel);
  v.interval = Interval{std::exp(interval.low), std::exp(interval.high)};
  v.statistic = d.difference;
  v.margin_interval = v.interval;
  v.p = sign_flip_test(logs).p;
  v.deviation = std::sqrt(variance(logs));
  v.p_equal = equivalence_test(d, std::log1p(h.margin)).p;
  if (range(logs).low < range(logs).high && shapiro_wilk(logs).p < 0.01)
    v.method += ", interval by Student's t although the logarithms are not normally distributed (Shapiro and Wilk, p < 0.01)";
  return v;
}

/// Values over a factor, each divided by the geometric mean of the cases that it is alike in the others.
struct Scaled {
  std::vector<double> x, y;
  Samples by_level;
  int least = 0;  // processes of a case
};

/// Cases that are alike but for their level, with their medians.
using LevelGroup = std::map<double, std::pair<const Case*, double>>;

/// Groups without gaps, each with the levels that all of them have: else a level would stand for other cases than the next.
std::vector<LevelGroup> level_groups(const Hypothesis& h, const Study& study, const Results& results) {
  std::vector<LevelGroup> out;
  for (const auto& cases : alike_but_for(study.selected(h.where), {h.over})) {
    LevelGroup group;
    for (const Case* c : cases)
      if (const Estimate e = results.estimate(*c, h.metric); c->factor(h.over).is_number() && e.gap.empty() && e.median > 0)
        group[c->factor(h.over).get<double>()] = {c, e.median};
    if (group.size() == cases.size() && group.size() >= 2) out.push_back(std::move(group));
  }
  for (LevelGroup& group : out)
    std::erase_if(group, [&](const auto& one) { return std::ranges::any_of(out, [&](const LevelGroup& other) { return !other.contains(one.first); }); });
  return out;
}

Scaled scaled(const Hypothesis& h, const Study& study, const Results& results) {
  Scaled out;
  std::map<double, std::vector<double>> by_level;
  out.least = std::numeric_limits<int>::max();
  for (const LevelGroup& group : level_groups(h, study, results)) {
    std::vector<double> medians;
    for (const auto& [level, one] : group) medians.push_back(one.second);
    if (medians.empty()) continue;
    const double middle = geometric_mean(medians);
    for (const auto& [level, one] : group) {
      const auto values = results.values(*one.first, h.metric);
      out.least = std::min(out.least, static_cast<int>(values.size()));
      for (const auto& [block, value] : values) {
        const double y = std::log(value / middle);
        out.x.push_back(level);
        out.y.push_back(y);
        by_level[level].push_back(y);
      }
    }
  }
  for (auto& [level, values] : by_level) out.by_level.push_back(std::move(values));
  return out;
}

std::string lack_of_levels(const Hypothesis& h, const Study& study, const Results& results) {
  const std::vector<const Case*> cases = study.selected(h.where, {h.over});
  std::set<Json> levels;
  for (const Case* c : cases)
    if (!results.values(*c, h.metric).empty()) levels.insert(c->factor(h.over));
  return lack_of(cases, h, results,
                 levels.size() < 2 ? fmt::format("at one value of {} alone", h.over) : fmt::format("not of all of any group that differs in {} alone", h.over));
}

bool has_enough(const Scaled& s) { return s.by_level.size() >= 2 && s.least >= kLeastProcesses; }

/// p of that not all levels are equal within the margin: the largest of their pairs.
double p_of_equality(const Samples& levels, double margin) {
  double out = 0;
  for (std::size_t i = 0; i < levels.size(); ++i)
    for (std::size_t j = i + 1; j < levels.size(); ++j) out = std::max(out, equivalence_test(welch(levels[i], levels[j]), std::log1p(margin)).p);
  return out;
}

/// How much larger the last level's values are than the first's.
void compare_ends(const Hypothesis& h, const Scaled& s, Verdict& v) {
  v.n = static_cast<int>(s.y.size());
  if (s.by_level.size() < 2) return;
  v.effect = std::exp(mean(s.by_level.back()) - mean(s.by_level.front()));
  if (!has_enough(s)) return;
  const MeanDifference ends = welch(s.by_level.back(), s.by_level.front());
  const Interval interval = ends.interval(1 - kLevel);
  v.interval = Interval{std::exp(interval.low), std::exp(interval.high)};
  v.margin_interval = v.interval;
  v.p_equal = p_of_equality(s.by_level, h.margin);
}

Verdict by_trend(const Hypothesis& h, const Scaled& s, Verdict v) {
  v.method = fmt::format("Kendall's tau over {}", h.over);
  compare_ends(h, s, v);
  if (!has_enough(s)) return v;
  const TestResult tau = trend_test(s.x, s.y);
  v.statistic = tau.statistic;
  v.p = tau.p;
  return v;
}

Verdict by_variance(const Hypothesis& h, const Scaled& s, Verdict v) {
  v.method = fmt::format("one-way analysis of variance over {}", h.over);
  compare_ends(h, s, v);
  if (!has_enough(s)) return v;
  const AnalysisOfVariance f = analysis_of_variance(s.by_level);
  v.statistic = f.f;
  v.p = f.p;
  v.method += fmt::format(", which explains {:.0f} % of the variance of processes (eta squared)", 100 * f.eta_squared);
  std::vector<double> means;
  for (const auto& level : s.by_level) means.push_back(mean(level));
  const auto [low, high] = std::ranges::minmax_element(means);
  const auto& largest = s.by_level[static_cast<std::size_t>(high - means.begin())];
  const auto& least = s.by_level[static_cast<std::size_t>(low - means.begin())];
  const MeanDifference apart = welch(largest, least);
  // The two levels were picked for being far apart: the interval is one of all pairs of levels together.
  const double levels = static_cast<double>(means.size());
  const Interval interval = apart.interval(1 - 2 * kLevel / (levels * (levels - 1)));
  v.margin_interval = Interval{std::exp(interval.low), std::exp(interval.high)};
  return v;
}

/// One point a case: the logarithms of the medians of both metrics.
Verdict by_correlation(const Hypothesis& h, const Study& study, const Results& results, Verdict v) {
  std::vector<double> x, y;
  for (const Case* c : study.selected(h.where)) {
    const Estimate with = results.estimate(*c, h.with), metric = results.estimate(*c, h.metric);
    if (!with.gap.empty() || !metric.gap.empty() || with.median <= 0 || metric.median <= 0) continue;
    x.push_back(std::log(with.median));
    y.push_back(std::log(metric.median));
  }
  v.n = static_cast<int>(x.size());
  v.effect_is = "correlation";
  v.method = fmt::format("correlation of the logarithms over {} cases; test by permutations", v.n);
  if (v.n < kLeastProcesses) return v;
  const Correlation found = correlation(x, y);
  v.effect = found.r;
  v.interval = found.interval;
  v.statistic = found.slope;
  v.p = found.p;
  return v;
}

std::string shown_p(double p) { return p < 0.001 ? "p < 0.001" : fmt::format("p = {:.3f}", p); }

bool expects_no_effect(const Hypothesis& h) { return h.expected == "equal" || h.expected == "level" || h.expected == "does not matter"; }

/// Whether what was found is what the text says. That there is no effect worth speaking of is refuted by one that is certainly larger than the margin.
std::string holds(const Hypothesis& h, const Verdict& v) {
  const bool differs = v.verdict == "differs" || v.verdict == "correlates", is_equal = v.verdict.starts_with("equal");
  if (!differs && !is_equal) return "open, nothing is decided";
  const double effect = v.effect.value_or(1), direction = h.method == Method::trend         ? v.statistic.value_or(0)
                                                          : h.method == Method::correlation ? effect
                                                                                            : std::log(effect);
  bool yes = false;
  if (expects_no_effect(h)) {
    const double most = 1 + h.margin;
    if (differs && !(v.margin_interval && (v.margin_interval->low >= most || v.margin_interval->high <= 1 / most)))
      return fmt::format("open, it differs but perhaps by less than {:.3g} %", 100 * h.margin);
    yes = is_equal;
  } else if (h.expected == "matters") {
    yes = differs;
  } else {
    yes = differs && (direction > 0) == (h.expected == "above 1" || h.expected == "rises");
  }
  return yes ? "it holds" : "it does not hold";
}

/// What the test can see at the level that adjusting leaves to one of so many.
void add_power(const Hypothesis& h, std::size_t tests, Verdict& v) {
  if (!v.p) return;
  const double level = kLevel / static_cast<double>(tests);
  if (h.method == Method::correlation) v.could_have_seen = detectable_correlation(v.n, level);
  if (!v.deviation) return;
  if (const double seen = detectable_by_signs(v.n, level) * *v.deviation; std::isfinite(seen))
    v.could_have_seen = std::expm1(seen);
  else
    v.enough_blocks = least_blocks(tests);
}

std::string could_see(const Verdict& v, std::size_t tests) {
  if (v.could_have_seen) return fmt::format(" Sign flips see a difference of {:.1f} % in 80 % of such studies.", 100 * *v.could_have_seen);
  if (v.enough_blocks && v.verdict == "undecided")
    return fmt::format(" {} blocks are too few for sign flips to tell a difference, adjusted over {} tests: {} are enough.", v.n, tests, *v.enough_blocks);
  return "";
}

/// What was found, where there is no test.
std::string untested(const Verdict& v, const std::string& what) {
  const std::string span =
      v.interval ? (v.n == 1 ? " in one block" : fmt::format(" ({:.3f} to {:.3f} in {} blocks)", v.interval->low, v.interval->high, v.n)) : "";
  return fmt::format("{}{}; fewer than {} processes of each case: no interval, no test, so nothing is decided.", what, span, kLeastProcesses);
}

std::string of_correlation(const Hypothesis& h, const Verdict& v) {
  if (!v.p) return fmt::format("{} cases have both {} and {}, fewer than {}: no test, so nothing is decided.", v.n, h.metric, h.with, kLeastProcesses);
  return fmt::format(
      "The logarithms of {0} and {1} have a correlation of {2:.3f} (95 %: {3:.3f} to {4:.3f}; {5}; {6}, over all hypotheses {7}), and {0} grows as {1} to the "
      "power of {8:.2f}: {9}. Such a test sees a correlation of {10:.2f} in 80 % of studies.",
      h.metric, h.with, *v.effect, v.interval->low, v.interval->high, v.method, shown_p(*v.p), shown_p(*v.p_adjusted), *v.statistic, v.verdict,
      *v.could_have_seen);
}

}  // namespace

Verdict tested(const Hypothesis& h, const Study& study, const Results& results) {
  Verdict v{.name = h.name, .claim = h.claim, .source = h.source, .metric = h.metric};
  if (h.method == Method::ratio) return by_ratio(h, study, results, std::move(v));
  if (h.method == Method::correlation) return by_correlation(h, study, results, std::move(v));
  const Scaled values = scaled(h, study, results);
  if (values.by_level.size() < 2) v.lack = lack_of_levels(h, study, results);
  return h.method == Method::trend ? by_trend(h, values, std::move(v)) : by_variance(h, values, std::move(v));
}

void decide(const Hypothesis& h, std::size_t tests, Verdict& v) {
  add_power(h, tests, v);
  if (v.p_equal_adjusted && *v.p_equal_adjusted < kLevel)
    v.verdict = fmt::format("equal within {:.3g} %", 100 * h.margin);  // also where a smaller difference is certain
  else
    v.verdict = !v.p_adjusted || *v.p_adjusted >= kLevel ? "undecided" : h.method == Method::correlation ? "correlates" : "differs";
  v.claim_holds = holds(h, v);
  if (h.method == Method::correlation) {
    v.sentence = of_correlation(h, v);
    return;
  }
  if (!v.effect) {
    v.sentence = v.lack;
    return;
  }
  const std::string what = h.method == Method::ratio
                               ? fmt::format("The ratio of {} is {:.3f}", h.metric, *v.effect)
                               : fmt::format("From the least {0} to the largest, {1} changes by a factor of {2:.3f}", h.over, h.metric, *v.effect);
  if (!v.p) {
    v.sentence = untested(v, what);
    return;
  }
  v.sentence = fmt::format("{} (95 %: {:.3f} to {:.3f}; n = {}; {}; {}, over all hypotheses {}): {}.{}", what, v.interval->low, v.interval->high, v.n, v.method,
                           shown_p(*v.p), shown_p(*v.p_adjusted), v.verdict, could_see(v, tests));
}

}  // namespace gemel::study
