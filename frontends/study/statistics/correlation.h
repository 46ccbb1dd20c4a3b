// Whether two things that are measured of the same cases go together.
#pragma once
#include <span>

#include "frontends/study/statistics/averages.h"
#include "frontends/study/statistics/two_samples.h"

namespace gemel::study {

struct Correlation {
  double r = 0;       // Pearson's, -1..1; 0 where one of the two does not vary
  double slope = 0;   // of y over x, by least squares
  double p = 1;       // two-sided: the share of pairings of x and y whose r lies as far from 0
  Interval interval;  // of r, 95 %, by Fisher's z: supposes that both are normal
};

/// All pairings are looked at where there are at most `most`, else as many at random. @param x, y  of the same 4 values or more
/// Sources: K. Pearson, Notes on regression and inheritance in the case of two parents, 1895; R. A. Fisher, On the probable error of a coefficient of
/// correlation, 1921
Correlation correlation(std::span<const double> x, std::span<const double> y, const Permutations& options = {});

/// The r that a two-sided test of so many pairs finds in 80 % of such experiments. @param n  4 or more
double detectable_correlation(int n, double level);

}  // namespace gemel::study
