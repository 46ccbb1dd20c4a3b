#include "frontends/study/statistics/time_series.h"

#include <limits>
#include <numeric>
#include <vector>

namespace gemel::study {

std::optional<std::size_t> warm_up(std::span<const double> series) {
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity(), sum = 0, squares = 0;
  // From the end, so that sums of what is left grow by one value each; a rest of fewer than 4 values says nothing.
  const double middle = series.empty() ? 0 : mean(series);
  for (std::size_t first = series.size(); first-- > 0;) {
    const double x = series[first] - middle;  // less cancellation
    sum += x;
    squares += x * x;
    const auto n = static_cast<double>(series.size() - first);
    if (n < 4) continue;
    const double error = (squares - sum * sum / n) / (n * n);
    if (error <= least) {
      least = error;
      best = first;
    }
  }
  if (2 * best > series.size()) return std::nullopt;
  return best;
}

TestResult drift(std::span<const double> series) {
  std::vector<double> order(series.size());
  std::iota(order.begin(), order.end(), 0.0);
  return trend_test(order, series);
}

}  // namespace gemel::study
