#include "frontends/study/statistics/ranked_values.h"

#include <algorithm>
#include <numeric>

namespace gemel::study {

Ranks ranks_of(std::span<const double> sample) {
  std::vector<std::size_t> order(sample.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return sample[i]; });
  Ranks out{std::vector<double>(sample.size())};
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && sample[order[last]] == sample[order[first]]) ++last;
    const auto equal = static_cast<double>(last - first);
    for (std::size_t i = first; i < last; ++i) out.values[order[i]] = static_cast<double>(first + last + 1) / 2;
    out.tie_cubes += equal * equal * equal - equal;
  }
  return out;
}

}  // namespace gemel::study
