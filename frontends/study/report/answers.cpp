#include "frontends/study/report/answers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace gemel::study {
namespace {

struct MetricWords {
  const char *metric, *words;
};
constexpr std::array kWords{MetricWords{"ms", "time of a step"},
                            MetricWords{"ms_per_sample", "time of a sample"},
                            MetricWords{"samples_per_s", "samples a second"},
                            MetricWords{"epoch_s", "time of an epoch"},
                            MetricWords{"training_s", "time of training"},
                            MetricWords{"watts", "power"},
                            MetricWords{"joules_per_sample", "energy of a sample"},
                            MetricWords{"peak_bytes", "memory at its peak"},
                            MetricWords{"stage_peak_bytes", "memory of the largest stage"},
                            MetricWords{"exposed_share", "share of a step that waits"},
                            MetricWords{"last_epoch.val_accuracy", "accuracy of validation"},
                            MetricWords{"last_epoch.val_loss", "loss of validation"}};

/// "time of an epoch (epoch_s)", "memory at its peak (peak_bytes in MiB)"
std::string named(const std::string& metric) {
  const auto known = std::ranges::find(kWords, metric, &MetricWords::metric);
  const std::string label = display_unit(metric).label;
  return known == kWords.end() ? label : fmt::format("{} ({})", known->words, label);
}

std::string value_of(const std::string& metric, double value) { return four_digits(value / display_unit(metric).size); }

/// What cases are named by beside these factors.
std::string rest_of(const Case& c, const Selection& but) {
  std::vector<std::string> words;
  for (const auto& [factor, value] : c.factors.items())
    if (!but.contains(factor)) words.push_back(value.is_string() ? word_of(value) : factor + " " + word_of(value));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// "; medians: vgg16: 868 against 992, resnet50: 275 against 252"; empty where there are too many pairs to read.
std::string medians_of(const Hypothesis& h, const Study& study, const Results& results) {
  constexpr std::size_t kMost = 4;
  Selection named_by_both = h.a;
  named_by_both.update(h.b);
  named_by_both.update(h.where);
  std::vector<std::string> words;
  for (const auto& [a, b] : pairs_of(h, study)) {
    const Estimate of_a = results.estimate(*a, h.metric), of_b = results.estimate(*b, h.metric);
    if (!of_a.gap.empty() || !of_b.gap.empty()) continue;
    const std::string rest = rest_of(*a, named_by_both);
    words.push_back(fmt::format("{}{}{} against {}", rest, rest.empty() ? "" : ": ", value_of(h.metric, of_a.median), value_of(h.metric, of_b.median)));
  }
  return words.empty() || words.size() > kMost ? "" : fmt::format("; medians: {}", fmt::join(words, ", "));
}

std::string span_of(const Verdict& v) {
  if (v.n == 1) return " in one block";
  return v.interval ? fmt::format(" ({}{:.3g} to {:.3g})", v.p ? "95 %: " : "all: ", v.interval->low, v.interval->high) : "";
}

}  // namespace

std::string summary_of(const Study& study, const Results& results) {
  if (study.tables.empty()) return "";
  const Table& table = study.tables[0];
  struct Found {
    std::string line;
    std::vector<std::pair<double, std::string>> values;
  };
  std::vector<Found> found;
  const std::string by = table.rows.size() < 2 ? "" : table.rows[0];
  for (const Case* c : study.selected(table.where, table.rows)) {
    const Estimate e = results.estimate(*c, table.metric);
    if (!e.gap.empty()) continue;
    const std::string line = by.empty() ? "" : word_of(c->factor(by));
    auto it = std::ranges::find(found, line, &Found::line);
    if (it == found.end()) it = found.insert(found.end(), {line, {}});
    it->values.emplace_back(e.median, rest_of(*c, by.empty() ? Json::object() : Json{{by, nullptr}}));
  }
  std::vector<std::string> words;
  for (const auto& [line, values] : found) {
    if (values.size() < 2) continue;
    const auto [low, high] = std::ranges::minmax(values);
    words.push_back(fmt::format("{}{}{} ({}) to {} ({})", line, line.empty() ? "" : ": ", value_of(table.metric, low.first), low.second,
                                value_of(table.metric, high.first), high.second));
  }
  return words.empty() ? "" : fmt::format("From the least to the largest {}: {}.", named(table.metric), fmt::join(words, "; "));
}

std::string answer_to(const Hypothesis& h, const Verdict& v, const Study& study, const Results& results) {
  const std::string begin = fmt::format("{} Here {}{}", v.claim, v.claim_holds.starts_with("it ") ? "" : "it is ", v.claim_holds);
  if (!v.effect) return begin + ".";
  if (h.method == Method::ratio)
    return fmt::format("{}: the {} of {} is {:.3g} times that of {}{}{}.", begin, named(h.metric), described(h.a), *v.effect, described(h.b), span_of(v),
                       medians_of(h, study, results));
  if (h.method == Method::correlation)
    return fmt::format("{}: the {} and the {} have a correlation of {:.3g}{} over {} cases.", begin, named(h.metric), named(h.with), *v.effect, span_of(v),
                       v.n);
  return fmt::format("{}: from the least {} to the largest, the {} changes by a factor of {:.3g}{}.", begin, h.over, named(h.metric), *v.effect, span_of(v));
}

}  // namespace gemel::study
