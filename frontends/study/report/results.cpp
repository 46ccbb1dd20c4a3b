#include "frontends/study/report/results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "frontends/study/report/hypotheses.h"
#include "frontends/study/report/knees.h"
#include "frontends/study/statistics/bootstrap.h"
#include "frontends/study/statistics/several_samples.h"
#include "frontends/study/statistics/two_samples.h"

namespace gemel::study {
namespace {

Json json_of(const Estimate& e) {
  if (!e.gap.empty()) return {{"n", e.n}, {"gap", e.gap}, {"reason", e.reason}};
  Json out{{"n", e.n}, {"median", e.median}};
  out[e.is_range ? "range" : "interval"] = {e.interval.low, e.interval.high};
  return out;
}

template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const Verdict& v) {
  Json span;
  if (v.interval) span = {v.interval->low, v.interval->high};
  return {{"name", v.name},
          {"claim", v.claim},
          {"source", v.source},
          {"method", v.method},
          {"metric", v.metric},
          {"n", v.n},
          {"statistic", json_of(v.statistic)},
          {"p", json_of(v.p)},
          {"p_adjusted", json_of(v.p_adjusted)},
          {"p_equal", json_of(v.p_equal)},
          {"p_equal_adjusted", json_of(v.p_equal_adjusted)},
          {"effect", json_of(v.effect)},
          {"effect_is", v.effect_is},
          {v.p ? "interval" : "range", span},
          {"verdict", v.verdict},
          {"could_have_seen", json_of(v.could_have_seen)},
          {"enough_blocks", json_of(v.enough_blocks)},
          {"claim_holds", v.claim_holds},
          {"sentence", v.sentence}};
}

}  // namespace

std::string four_digits(double value) { return std::abs(value) >= 1e4 && std::abs(value) < 1e7 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value); }

std::string described(const Selection& selection) {
  std::vector<std::string> words;
  for (const auto& [factor, value] : selection.items()) words.push_back(factor + " " + word_of(value));
  return fmt::format("{}", fmt::join(words, ", "));
}

DisplayUnit display_unit(const std::string& metric) {
  struct Unit {
    const char *ending, *name;
    double size;
  };
  static constexpr std::array kUnits{Unit{"_bytes", "MiB", 1 << 20}, Unit{"flops", "GFLOP", 1e9}, Unit{"flops_per_second", "GFLOP/s", 1e9},
                                     Unit{"parameters", "millions", 1e6}};
  const auto known = std::ranges::find_if(kUnits, [&](const Unit& unit) { return metric.ends_with(unit.ending); });
  if (known == kUnits.end()) return {metric};
  return {fmt::format("{} in {}", metric, known->name), known->size};
}

std::string text_of(const Estimate& e, double unit) {
  if (!e.gap.empty()) return e.gap;
  const std::string median = four_digits(e.median / unit);
  if (e.n == 1) return fmt::format("{} (one {})", median, e.unit);
  const std::string all = e.is_range ? fmt::format("all {}", e.n) : "";
  if (e.interval.low == e.interval.high) return all.empty() ? median : fmt::format("{} ({})", median, all);
  return fmt::format("{} ({} to {}{}{})", median, four_digits(e.interval.low / unit), four_digits(e.interval.high / unit), all.empty() ? "" : ", ", all);
}

Results::Results(const Study& study, std::vector<ProcessRecord> runs) : study_(study), runs_(std::move(runs)) {
  std::erase_if(runs_, [&](const ProcessRecord& run) { return study.scale && run.scale != *study.scale && run.status == "ok"; });  // the pilot
  for (const ProcessRecord& run : runs_) by_case_[run.name].push_back(&run);
  for (const Hypothesis& h : study.hypotheses) verdicts_.push_back(tested(h, study, *this));
  adjust();
  const auto tests = static_cast<std::size_t>(std::ranges::count_if(verdicts_, [](const Verdict& v) { return v.p.has_value(); }));
  for (std::size_t i = 0; i < verdicts_.size(); ++i) decide(study.hypotheses[i], tests, verdicts_[i]);
}

void Results::adjust() {
  std::vector<std::vector<double>> p;  // of each hypothesis: that there is no difference, and that there is one beyond the margin, which exclude each other
  for (const Verdict& v : verdicts_) {
    auto& group = p.emplace_back();
    for (const auto& one : {v.p, v.p_equal})
      if (one) group.push_back(*one);
  }
  const auto adjusted = holm_of_groups(p);
  for (std::size_t i = 0; i < verdicts_.size(); ++i) {
    Verdict& v = verdicts_[i];
    if (v.p) v.p_adjusted = adjusted[i].front();
    if (v.p_equal) v.p_equal_adjusted = adjusted[i].back();
  }
}

std::vector<const ProcessRecord*> Results::failures() const {
  std::vector<const ProcessRecord*> out;
  for (const ProcessRecord& run : runs_)
    if (run.status != "ok") out.push_back(&run);
  return out;
}

std::vector<const ProcessRecord*> Results::runs_of(const Case& c) const {
  std::vector<const ProcessRecord*> out;
  const auto it = by_case_.find(c.name);
  if (it != by_case_.end()) std::ranges::copy_if(it->second, std::back_inserter(out), [](const ProcessRecord* run) { return run->status == "ok"; });
  return out;
}

std::map<int, double> Results::values(const Case& c, const std::string& metric) const {
  std::map<int, double> out;
  for (const ProcessRecord* run : runs_of(c))
    if (run->metrics.contains(metric)) out[run->repeat] = run->metrics[metric].get<double>();
  return out;
}

std::vector<double> Results::sample(const Case& c, const std::string& metric) const {
  std::vector<double> out;
  for (const auto& [block, value] : values(c, metric)) out.push_back(value);
  return out;
}

Estimate Results::estimate(const Case& c, const std::string& metric) const {
  const auto known = estimates_.find({c.name, metric});
  if (known != estimates_.end()) return known->second;
  return estimates_[{c.name, metric}] = found(c, metric);
}

Estimate Results::found(const Case& c, const std::string& metric) const {
  const std::vector<double> all = sample(c, metric);
  Estimate out{.n = static_cast<int>(all.size())};
  if (all.empty()) {
    const auto it = by_case_.find(c.name);
    if (it == by_case_.end()) {
      out.gap = "not run";
      out.reason = "the budget ended before";
    } else {
      const ProcessRecord& last = *it->second.back();
      const bool is_ok = last.status == "ok";
      out.gap = is_ok ? kNotMeasured : last.status;
      out.reason = is_ok ? last.unmeasured.value(metric, fmt::format("its result has no {}", metric)) : last.reason;
    }
    return out;
  }
  out.median = median(all);
  out.is_range = out.n < kLeastProcesses;
  out.interval = out.is_range ? range(all) : median_interval(all);
  return out;
}

Estimate Results::ratio(const Case& a, const Case& b, const std::string& metric) const {
  const auto of_a = values(a, metric), of_b = values(b, metric);
  std::vector<double> logs;
  for (const auto& [block, value] : of_a)
    if (const auto other = of_b.find(block); other != of_b.end() && value > 0 && other->second > 0) logs.push_back(std::log(value / other->second));
  Estimate out{.n = static_cast<int>(logs.size()), .unit = "block"};
  if (logs.empty()) {
    out.gap = kNotMeasured;
    return out;
  }
  out.median = std::exp(mean(logs));
  out.is_range = out.n < kLeastProcesses;
  const Interval interval = out.is_range ? range(logs) : paired(logs).interval(0.95);
  out.interval = {std::exp(interval.low), std::exp(interval.high)};
  return out;
}

std::vector<std::pair<std::string, Json>> Results::agreements() const {
  std::vector<std::pair<std::string, Json>> out;
  for (const Case& c : study_.cases)
    if (const auto it = by_case_.find(c.name); it != by_case_.end() && !it->second[0]->agreement.is_null()) out.emplace_back(c.name, it->second[0]->agreement);
  return out;
}

bool Results::is_whole() const {
  return std::ranges::all_of(
      runs_, [](const ProcessRecord& run) { return run.peer() != kGemel || run.status == "ok" || run.status == "does-not-fit" || run.status == "missing"; });
}

Json Results::json() const {
  Json tables = Json::array(), knees = Json::array(), tests = Json::array();
  for (const Table& table : study_.tables) {
    Json rows = Json::array();
    for (const Case* c : study_.selected(table.where, table.rows)) {
      Json row = c->factors;
      row.update(json_of(estimate(*c, table.metric)));
      rows.push_back(std::move(row));
    }
    tables.push_back({{"name", table.name}, {"caption", table.caption}, {"metric", table.metric}, {"rows", std::move(rows)}});
  }
  for (const Knee& knee : study_.knees) knees.push_back(study::json_of(knee, knees_of(knee, study_, *this)));
  for (const Verdict& v : verdicts_) tests.push_back(json_of(v));
  Json agreements = Json::array();
  for (const auto& [name, found] : this->agreements()) agreements.push_back({{"case", name}, {"difference", found}});
  return {
      {"study", study_.name}, {"tables", std::move(tables)}, {"knees", std::move(knees)}, {"tests", std::move(tests)}, {"agreements", std::move(agreements)}};
}

}  // namespace gemel::study
