// The lines of a study's plots and curves.
#pragma once
#include <vector>

#include "frontends/study/plot_svg.h"
#include "frontends/study/results.h"

namespace gemel::study {

/// Points are medians of cases over the plot's factor.
std::vector<Line> lines_of(const Plot& plot, const Study& study, const Results& results);
/// Points are medians over the processes of a case, of the same epoch, or of the same second, of each.
std::vector<Line> lines_of(const Curve& curve, const Study& study, const Results& results);

}  // namespace gemel::study
