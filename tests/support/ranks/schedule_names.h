// The schedules of pipelines under the short names that tables of them are written with.
#pragma once
#include "parallel/pipeline/schedule.h"

namespace gemel::testing {

inline constexpr auto kGpipe = parallel::ScheduleKind::gpipe, k1f1b = parallel::ScheduleKind::one_f_one_b, kInterleaved = parallel::ScheduleKind::interleaved;

}  // namespace gemel::testing
