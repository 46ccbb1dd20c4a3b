#include "frontends/study/statistics/time_series.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>
#include <vector>

namespace gemel::study {

WarmUp warm_up(const Samples& series) {
  // Means of logarithms, whose difference is 0 in the mean wherever nothing warms up, however the values are distributed.
  std::vector<double> differences;
  for (const auto& one : series) {
    if (one.size() < kShortestSeries) continue;
    std::vector<double> logs;
    for (const double value : one) logs.push_back(std::log(value));
    const std::span<const double> all(logs);
    differences.push_back(mean(all.first(all.size() / 4)) - mean(all.subspan(all.size() / 4)));
  }
  if (differences.size() < 2) return {};
  const MeanDifference found = paired(differences);
  if (found.standard_error == 0) return {std::exp(found.difference), found.difference > 0 ? 0.0 : 1.0};
  return {std::exp(found.difference), cdf(complement(boost::math::students_t(found.degrees), found.difference / found.standard_error))};
}

TestResult drift(std::span<const double> series) {
  std::vector<double> order(series.size());
  std::iota(order.begin(), order.end(), 0.0);
  return trend_test(order, series);
}

}  // namespace gemel::study
