// A table of a study with its results: as a grid of a page, and as CSV.
#pragma once
#include <string>
#include <vector>

#include "frontends/study/report/page.h"
#include "frontends/study/report/plot_svg.h"
#include "frontends/study/report/results.h"

namespace gemel::study {

/// One row for each combination of the row factors' values, one column for each value of the column's; cases without that factor have a column of their own.
/// Beside them the ratios to the base, where the table has one.
Grid grid_of(const Table& table, const Study& study, const Results& results);

/// Each case with its factors and what was found, a line each.
std::string csv_of(const std::vector<const Case*>& cases, const std::string& metric, const Results& results);
/// Each point of each line.
std::string csv_of(const std::vector<Line>& lines, const std::string& x, const std::string& y);
/// A line of CSV, with quotes where they are needed.
std::string csv_line(const std::vector<std::string>& cells);

}  // namespace gemel::study
