// The monitor's page as one file.
#pragma once
#include <cstddef>
#include <string>

#include "frontends/monitor/run_index.h"

namespace gemel::monitor {

struct ExportedPage {
  std::string text;
  std::size_t runs = 0, left_out = 0;  // those that do not fit beside newer ones
  std::size_t points = 0;              // of a curve, at most
};

/// The page with what the index holds. Each run's curves have as many points as fit, from 2 000 down to 250; where that is too much, runs are left out, the
/// oldest and those that are too large alone.
/// @param most_bytes  of the text  @throws DataError if not one run fits
ExportedPage exported_page(const RunIndex& index, std::size_t most_bytes);

}  // namespace gemel::monitor
