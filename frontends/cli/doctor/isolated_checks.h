// Checks in processes of their own, all at once.
#pragma once
#include <chrono>
#include <vector>

#include "frontends/cli/doctor/health_check.h"

namespace gemel::cli {

/// What all of them take at most: the program ends in 10 s.
inline constexpr std::chrono::milliseconds kAllChecks{9000};

/// Runs them. A check that crashes, throws or does not end in time is wrong where it was. Returns when all have ended, or were; nothing that they
/// started is left. @return lines in the order of the checks; those of one name are one, with the worst health of all
std::vector<Line> run_apart(const std::vector<Check>& checks);

}  // namespace gemel::cli
