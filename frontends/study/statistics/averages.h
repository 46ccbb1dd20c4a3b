// Averages and order statistics of a sample. The samples of a study are its processes: the steps of one give its median alone.
#pragma once
#include <span>

namespace gemel::study {

struct Interval {
  double low = 0, high = 0;
};

/// @throws InternalError for an empty sample, here and below
double mean(std::span<const double> sample);
/// Unbiased: divided by n - 1; 0 of one value.
double variance(std::span<const double> sample);
double median(std::span<const double> sample);
/// Linear between the neighbours of position q (n - 1). Source: R. Hyndman, Y. Fan, Sample quantiles in statistical packages, 1996, definition 7.
/// @param q  0..1
double quantile(std::span<const double> sample, double q);
Interval range(std::span<const double> sample);
/// Of ratios. @param sample  above 0
double geometric_mean(std::span<const double> sample);

}  // namespace gemel::study
