// Where a cost by size stops falling.
#pragma once
#include <span>

#include "frontends/study/statistics/bootstrap.h"

namespace gemel::study {

/// The least size from which on each doubling of the size saves less than this share of the cost; infinity where the last step still saves more.
/// @param sizes  rising, 2 or more  @param costs  above 0, of these sizes  @param share  0..1
double knee_of(std::span<const double> sizes, std::span<const double> costs, double share);

/// The knee of the samples' medians, and the sizes between which it lies in 95 % of resamplings of each sample.
struct KneeEstimate {
  double knee = 0;
  Interval interval;
};
KneeEstimate knee_of_medians(std::span<const double> sizes, const Samples& costs, double share, const Bootstrap& options = {});

}  // namespace gemel::study
