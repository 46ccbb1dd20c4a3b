// What may be wrong with measurements that were taken one after the other: a warm-up, and drift.
#pragma once
#include <cstddef>
#include <span>

#include "frontends/study/statistics/several_samples.h"

namespace gemel::study {

/// Whether the first quarters of several series, measured alike and one independent of the other, are larger than their rests.
struct WarmUp {
  double ratio = 1;  // of the first quarter over the rest, geometric
  double p = 1;      // one-sided, by Student's t over the series: values of one series may depend on each other
};
/// @param series  of values above 0; those of fewer than kShortestSeries say nothing
WarmUp warm_up(const Samples& series);
inline constexpr std::size_t kShortestSeries = 8;

/// Whether values rise or fall in the order in which they were taken, as trend_test says. @param series  2 values or more
TestResult drift(std::span<const double> series);

}  // namespace gemel::study
