// Grids of study files: the cases that they mean.
#pragma once
#include <vector>

#include "frontends/study/toml_keys.h"

namespace gemel::study {

/// Cases of a [[grid]]: every combination of its axes' values, of which those of the extent replace those of the same names.
/// @param common  what all cases of the study have in their specs
std::vector<Case> read_grid(Keys& grid, const SpecTable& common, Extent extent);

}  // namespace gemel::study
