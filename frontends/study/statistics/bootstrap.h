// Confidence intervals by resampling.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "frontends/study/statistics/averages.h"

namespace gemel::study {

using Samples = std::vector<std::vector<double>>;

struct Bootstrap {
  double level = 0.95;
  int resamples = 9999;
  std::uint64_t seed = 1;
};

/// The bias-corrected and accelerated interval of a statistic of one or several independent samples, such as the ratio of two medians.
/// A statistic that no resampling changes has an interval of no width.
/// @param samples  of 2 values or more each
/// Source: B. Efron, Better bootstrap confidence intervals, 1987; acceleration of several samples: B. Efron, R. Tibshirani, An introduction to the
/// bootstrap, 1993, chapter 14
Interval bootstrap_interval(const Samples& samples, const std::function<double(const Samples&)>& statistic, const Bootstrap& options = {});
/// The values between which so many of the resamplings lie, for a statistic of few values or of infinite ones.
/// Source: B. Efron, Bootstrap methods: another look at the jackknife, 1979
Interval percentile_interval(const Samples& samples, const std::function<double(const Samples&)>& statistic, const Bootstrap& options = {});
/// Of the median of one sample.
Interval median_interval(std::span<const double> sample, const Bootstrap& options = {});
/// Of median(a) / median(b).
Interval ratio_interval(std::span<const double> a, std::span<const double> b, const Bootstrap& options = {});

}  // namespace gemel::study
