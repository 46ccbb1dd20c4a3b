#include "frontends/study/statistics/knee.h"

#include <cmath>
#include <limits>
#include <vector>

namespace gemel::study {

double knee_of(std::span<const double> sizes, std::span<const double> costs, double share) {
  double knee = std::numeric_limits<double>::infinity();
  for (std::size_t i = sizes.size() - 1; i > 0; --i) {
    const double doublings = std::log2(sizes[i] / sizes[i - 1]);
    if (1 - std::pow(costs[i] / costs[i - 1], 1 / doublings) >= share) break;
    knee = sizes[i - 1];
  }
  return knee;
}

KneeEstimate knee_of_medians(std::span<const double> sizes, const Samples& costs, double share, const Bootstrap& options) {
  const auto statistic = [&](const Samples& samples) {
    std::vector<double> medians;
    for (const auto& sample : samples) medians.push_back(median(sample));
    return knee_of(sizes, medians, share);
  };
  return {statistic(costs), percentile_interval(costs, statistic, options)};
}

}  // namespace gemel::study
