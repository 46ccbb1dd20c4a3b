// Whether a sample may come from a normal distribution: asked before a test that supposes it is used.
#pragma once
#include <span>

#include "frontends/study/statistics/two_samples.h"

namespace gemel::study {

/// Shapiro and Wilk's test in Royston's approximation. statistic: W. @param sample  3 to 5000 values, not all equal
/// Source: P. Royston, Remark AS R94: a remark on algorithm AS 181, 1995
TestResult shapiro_wilk(std::span<const double> sample);

}  // namespace gemel::study
