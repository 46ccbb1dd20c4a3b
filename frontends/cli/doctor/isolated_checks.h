// Runs checks in processes of their own, all at once.
#pragma once
#include <chrono>
#include <vector>

#include "frontends/cli/doctor/health_check.h"

namespace gemel::cli {

/// Time limit of all checks together: the program ends within 10 s.
inline constexpr std::chrono::milliseconds kAllChecks{9000};

/// Runs checks. A check that crashes, throws or exceeds its time is reported as wrong in the line that it had begun. Returns when all checks have ended or were
/// ended, with all processes that they started.
/// @return lines in the order of the checks; lines of one name are merged, with the worst health of all
std::vector<Line> run_apart(const std::vector<Check>& checks);

}  // namespace gemel::cli
