// A table of kernels' figures, a line a kernel and target, kept in the repository to see what a change does to kernels on GPUs that are not here.
#pragma once
#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/offline/kernel_figures.h"

namespace gemel::testing {

/// Which kernel of which program, compiled for what.
struct FigurePlace {
  std::string program, options, kernel, target;
  friend auto operator<=>(const FigurePlace&, const FigurePlace&) = default;
};

using Figures = std::map<FigurePlace, KernelFigures>;

struct FigureTable {
  std::map<std::string, std::string> tools;  // that made the figures of a target, with their versions: others make other figures
  Figures figures;

  /// In place of what is there for a target.
  void replace(const std::string& target, const std::string& made_by, const Figures& figures_of_target);
};

/// Tab-separated lines: `target`, tools after a "tools", or the place and its figures. Empty text: an empty table.
/// @throws std::runtime_error with a line that is neither
FigureTable read_figure_table(std::string_view text);
std::string to_text(const FigureTable& table);

/// A sentence for each kernel that takes more than the table says, that the table lacks, or that it has for the target in vain.
/// Registers may be up to 8 more: GPUs hand them out by eights, and a change that costs nothing moves a few. Local memory is what the source says, so
/// it is equal. More stack or spills are always told, less of anything never.
std::vector<std::string> worse_than(const FigureTable& table, const std::string& target, const Figures& compiled);

}  // namespace gemel::testing
