// The lines of a study's plots and curves.
#pragma once
#include <optional>
#include <vector>

#include "frontends/study/report/plot_svg.h"
#include "frontends/study/report/results.h"

namespace gemel::study {

/// Points are medians of cases over the plot's factor; over a metric they are not joined, since neighbours differ in more. @param peak  by which the plot's
/// bound is drawn, where it has one
std::vector<Line> lines_of(const Plot& plot, const Study& study, const Results& results, const std::optional<DevicePeak>& peak = {});
/// Points are medians over the processes of a case, of the same epoch, or of the same second, of each.
std::vector<Line> lines_of(const Curve& curve, const Study& study, const Results& results);

}  // namespace gemel::study
