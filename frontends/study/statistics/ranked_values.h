// Ranks of values, from 1; equal values share the mean of theirs.
#pragma once
#include <span>
#include <vector>

namespace gemel::study {

struct Ranks {
  std::vector<double> values;
  double tie_cubes = 0;  // the sum of t^3 - t over groups of t equal values
};

Ranks ranks_of(std::span<const double> sample);

}  // namespace gemel::study
