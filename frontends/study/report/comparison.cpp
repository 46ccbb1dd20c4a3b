#include "frontends/study/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/base/error.h"
#include "frontends/study/report/circumstances.h"
#include "frontends/study/report/results.h"
#include "frontends/study/statistics/bootstrap.h"
#include "frontends/study/statistics/several_samples.h"
#include "frontends/study/study_record.h"

namespace gemel::study {
namespace {

struct Row {
  std::string name;
  Estimate a, b;
  std::optional<Interval> ratio;
  std::optional<double> p, delta;
};

std::vector<double> logarithms(std::vector<double> values) {
  for (double& v : values) v = std::log(v);
  return values;
}

}  // namespace

Page comparison(const std::filesystem::path& a, const std::filesystem::path& b) {
  const Study of_a = recorded_study(a), of_b = recorded_study(b);
  const Results in_a(of_a, read_runs(a)), in_b(of_b, read_runs(b));
  std::vector<Row> rows;
  std::vector<double> p;
  for (const Case& c : of_a.cases) {
    const auto other = std::ranges::find(of_b.cases, c.name, &Case::name);
    if (other == of_b.cases.end()) continue;
    Row row{.name = c.name, .a = in_a.estimate(c, kStepTime), .b = in_b.estimate(*other, kStepTime)};
    const std::vector<double> va = in_a.sample(c, kStepTime), vb = in_b.sample(*other, kStepTime);
    if (std::ssize(va) >= kLeastProcesses && std::ssize(vb) >= kLeastProcesses) {
      row.ratio = ratio_interval(va, vb);
      row.p = permutation_test(logarithms(va), logarithms(vb), difference_of_means).p;
      row.delta = cliffs_delta(va, vb);
      p.push_back(*row.p);
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) throw UsageError(fmt::format("study compare: {} and {} share no case; accepted: results of one study", a.string(), b.string()));
  const std::vector<double> adjusted = holm(p);
  std::size_t next = 0;
  Grid grid{.caption = fmt::format("Step times in ms: medians with 95 % intervals; p by permutations of the logarithms, adjusted by Holm over {} cases; delta: "
                                   "Cliff's, -1 where A is always less.",
                                   p.size()),
            .head = {"case", "A", "B", "A / B", "95 %", "p", "delta", ""}};
  for (const Row& row : rows) {
    const bool both = row.a.gap.empty() && row.b.gap.empty();
    const double p_adjusted = row.p ? adjusted[next++] : 1;
    grid.rows.push_back({row.name, text_of(row.a), text_of(row.b), both ? fmt::format("{:.3f}", row.a.median / row.b.median) : "",
                         row.ratio ? fmt::format("{:.3f} to {:.3f}", row.ratio->low, row.ratio->high) : "", row.p ? fmt::format("{:.3g}", p_adjusted) : "",
                         row.delta ? fmt::format("{:.2f}", *row.delta) : "",
                         !row.p              ? "too few processes"
                         : p_adjusted < 0.05 ? "differs"
                                             : "undecided"});
  }
  return {fmt::format("{}: A and B", of_a.title),
          {Paragraph{fmt::format("A: {}. B: {}. A ratio above 1: B is faster.", a.string(), b.string())}, grid, Heading{"Machine of A"},
           machine_grid(of_a, in_a), Heading{"Machine of B"}, machine_grid(of_b, in_b)}};
}

}  // namespace gemel::study
