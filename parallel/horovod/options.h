// Options of Horovod, by the names and meanings of its environment variables.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gemel::parallel::horovod {

struct Options {
  std::int64_t fusion_bytes = std::int64_t{128} << 20;  // HOROVOD_FUSION_THRESHOLD; 0: nothing is fused
  double cycle_ms = 1;                                  // HOROVOD_CYCLE_TIME
  std::size_t cache_capacity = 1024;                    // HOROVOD_CACHE_CAPACITY; 0: every cycle negotiates
  double stall_warning_s = 60;                          // HOROVOD_STALL_CHECK_TIME_SECONDS; 0, or HOROVOD_STALL_CHECK_DISABLE=1: never
  double stall_shutdown_s = 0;                          // HOROVOD_STALL_SHUTDOWN_TIME_SECONDS; 0: never
  std::string timeline;                                 // HOROVOD_TIMELINE: a file; empty: none
  bool marks_cycles = false;                            // HOROVOD_TIMELINE_MARK_CYCLES
  bool tunes = false;                                   // HOROVOD_AUTOTUNE
  std::string tuning_log;                               // HOROVOD_AUTOTUNE_LOG: a file; empty: none
  std::int64_t tuning_warmup_samples = 3;               // HOROVOD_AUTOTUNE_WARMUP_SAMPLES
  std::int64_t tuning_steps = 10;                       // HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE
};

/// @param variable  returns a variable's text or null, as getenv
/// @throws UsageError for a value that is not accepted
Options options_from(const std::function<const char*(const char*)>& variable);
Options options_from_environment();
/// Returns the HOROVOD_ variables of the environment that have no effect here.
std::vector<std::string> unread_variables();

}  // namespace gemel::parallel::horovod
