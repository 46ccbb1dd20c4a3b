// The report of a study: one HTML file, the same in Markdown, and the numbers of every table and plot as CSV.
#pragma once
#include <filesystem>

#include "frontends/study/report/results.h"

namespace gemel::study {

/// Writes report.html, report.md, results.json, tables/NAME.csv and plots/NAME.svg with plots/NAME.csv into the folder.
/// @throws DataError where they cannot be written
void write_report(const Study& study, const Results& results, const std::filesystem::path& folder);

}  // namespace gemel::study
