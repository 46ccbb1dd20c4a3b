// What may be wrong with measurements that were taken one after the other: a warm-up, and drift.
#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "frontends/study/statistics/several_samples.h"

namespace gemel::study {

/// How many values at the beginning belong to a warm-up: those without which the rest's mean is known best. Empty where that is more than half of them:
/// the series has not come to rest. Source: K. P. White, An effective truncation heuristic for bias reduction in simulation output, 1997 (MSER)
std::optional<std::size_t> warm_up(std::span<const double> series);

/// Whether values rise or fall in the order in which they were taken, as trend_test says. @param series  2 values or more
TestResult drift(std::span<const double> series);

}  // namespace gemel::study
