#include "frontends/study/report/circumstances.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "frontends/study/statistics/averages.h"
#include "frontends/study/statistics/time_series.h"

namespace gemel::study {
namespace {

constexpr double kDoubt = 0.01;  // p below which a case is doubted

/// Times of a process's steps; of training without the first, which no metric counts.
std::vector<double> steps_of(const ProcessRecord& run) {
  auto out = run.samples_ms.get<std::vector<double>>();
  if (!out.empty() && run.spec.is_object() && run.spec.value("command", "") == "train") out.erase(out.begin());
  return out;
}

std::string shown_value(const std::string& key, const Json& value) {
  if (key.ends_with("_bytes") && value.is_number()) return fmt::format("{:.1f} GiB", std::ldexp(value.get<double>(), -30));
  if (!value.is_array()) return word_of(value);
  std::vector<std::string> words;
  for (const Json& one : value) words.push_back(word_of(one));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// "compute_units 1 or 2": a value, or those of all processes.
std::string shown_values(const std::string& key, const std::vector<Json>& values) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> words;
  for (const Json& value : values)
    if (const std::string word = shown_value(key, value); !word.empty() && std::ranges::count(words, word) == 0) words.push_back(word);
  if (words.size() <= kMost) return fmt::format("{}", fmt::join(words, " or "));
  return fmt::format("{} and {} others", words[0], words.size() - 1);
}

/// A value of the machine's record over all processes; a table of them as "key value, key value".
std::string shown_record(const std::string& key, const std::vector<Json>& values) {
  if (!std::ranges::all_of(values, [](const Json& value) { return value.is_object(); })) return shown_values(key, values);
  std::map<std::string, std::vector<Json>> of_key;
  std::vector<std::string> order, words;
  for (const Json& value : values)
    for (const auto& [name, one] : value.items()) {
      if (!of_key.contains(name)) order.push_back(name);
      of_key[name].push_back(one);
    }
  for (const std::string& name : order) words.push_back(fmt::format("{} {}", name, shown_record(name, of_key[name])));
  return fmt::format("{}", fmt::join(words, ", "));
}

constexpr const char* kOtherCores = "other_cores";  // of metrics

std::string shown(const Json& found, const char* key) { return found.contains(key) ? fmt::format("{:.1e}", found[key].get<double>()) : ""; }

}  // namespace

Grid agreement_grid(const Results& results) {
  Grid out{.caption =
               "Peers start from Gemel's weights and data. A row of theirs is shown only if their outputs, and the losses of five steps on one batch without "
               "dropout, agree with Gemel's: outputs within 1e-3 of the largest, losses within 1e-3 and a tenth of what these steps change the loss by. The "
               "rate is the case's, or that divided by 10 until each of five steps lowers the loss, all by at most a tenth, and Gemel's own losses agree "
               "within 1e-4 with those of the batch in reverse order: above it, a deep untrained network magnifies rounding",
           .head = {"case", "outputs differ by", "losses differ by", "five steps change the loss by", "rate"},
           .rows = {}};
  for (const auto& [name, found] : results.agreements())
    out.rows.push_back({name, shown(found, "outputs"), shown(found, "losses"), shown(found, "change"), shown(found, "lr")});
  return out;
}

ListItems rules() {
  return {{"1, speed-ups: each table has absolute figures, and ratios stand beside the base that it names.",
           "2, subsets: every case of the study is in the tables, gaps with their reasons.",
           "3, 4, averages: medians; rates come of median times; ratios are averaged geometrically.",
           "5, 6, variation and normality: intervals of medians by bootstrap (BCa) suppose no distribution; sign flips suppose that logarithms of ratios lie "
           "alike on both sides of their mean; intervals of ratios and tests of equality are of logarithms of ratios, by Student's t.",
           "7, comparisons: by tests, with all p values of the study adjusted as one family (Holm; of each hypothesis at most one of the two, no difference "
           "and one beyond the margin, can be true: Shaffer), so that the chance of one false verdict in all is at most 5 %; the unit is the process, not the "
           "step.",
           "8, percentiles: samples_ms of every process are in runs.jsonl.", "9, factors: the spec of every process is in runs.jsonl, the machine below.",
           "10, time of ranks: a step of `bench` is as long as on the slowest rank; one of `train` is the first rank's, which waits for the others where "
           "training is synchronous.",
           "11, bounds: plots of time and rate have the device's own, measured, where the study asks for it.",
           "12, lines join points only along a factor of numbers, or along a run."}};
}

ListItems doubts_of(const Study& study, const Results& results) {
  ListItems out;
  for (const Case& c : study.cases) {
    const std::vector<double> values = results.sample(c, kStepTime);
    if (std::ssize(values) < kLeastProcesses) continue;
    Samples steps;
    for (const ProcessRecord* run : results.runs_of(c)) steps.push_back(steps_of(*run));
    if (const WarmUp found = warm_up(steps); found.p < kDoubt)
      out.items.push_back(fmt::format("{}: the first quarter of the steps took {:.1f} % longer than the rest (p = {:.1g}): they may have been a warm-up",
                                      c.name, 100 * (found.ratio - 1), found.p));
    if (const TestResult trend = drift(values); trend.p < kDoubt)
      out.items.push_back(fmt::format("{}: its processes grew {} from block to block (Kendall's tau {:.2f}, p = {:.3f})", c.name,
                                      trend.statistic > 0 ? "slower" : "faster", trend.statistic, trend.p));
  }
  return out;
}

Grid machine_grid(const Study& study, const Results& results) {
  Grid out{.caption = "When, where and with what it was measured", .head = {"what", "value"}, .rows = {}};
  std::vector<std::string> dates, programs;
  std::map<std::string, std::map<std::string, std::vector<Json>>> records;  // by program and key
  for (const ProcessRecord& run : results.runs()) {
    if (!run.started.empty()) dates.push_back(run.started);
    if (!run.machine.is_object()) continue;
    if (std::ranges::count(programs, run.peer()) == 0) programs.push_back(run.peer());
    for (const auto& [key, value] : run.machine.items()) records[run.peer()][key].push_back(value);
  }
  if (!dates.empty()) {
    const auto [first, last] = std::ranges::minmax_element(dates);
    out.rows.push_back({"date (UTC)", *first == *last ? *first : *first + " to " + *last});
  }
  if (study.machine.is_object())
    for (const auto& [key, value] : study.machine.items()) out.rows.push_back({key, shown_record(key, {value})});
  for (const std::string& program : programs)
    for (const auto& [key, values] : records[program])
      if (std::string shown = shown_record(key, values); !shown.empty()) out.rows.push_back({program + ", " + key, std::move(shown)});
  std::vector<double> others;
  for (const ProcessRecord& run : results.runs())
    if (run.metrics.contains(kOtherCores)) others.push_back(run.metrics[kOtherCores].get<double>());
  if (!others.empty())
    out.rows.push_back({"cores that other programs took meanwhile", fmt::format("median {:.2f}, at most {:.2f}", median(others), range(others).high)});
  if (programs.empty()) out.rows.push_back({"programs", "no process ended well"});
  return out;
}

Listing commands_of(const Study& study, const Results& results) {
  std::string out;
  std::set<std::string> seen;
  for (const ProcessRecord& run : results.runs()) {
    if (run.command.empty() || run.peer() != kGemel || !seen.insert(run.name).second) continue;
    const auto c = std::ranges::find(study.cases, run.name, &Case::name);
    const int busy = c == study.cases.end() ? 0 : c->spec.value(kBusyCores, 0);
    const std::string meanwhile = busy ? fmt::format("; other programs compute on {} of its cores meanwhile", busy) : "";
    out += fmt::format("{}# {}{}\n{}", out.empty() ? "" : "\n", run.name, meanwhile, run.command);
  }
  return {out};
}

}  // namespace gemel::study
