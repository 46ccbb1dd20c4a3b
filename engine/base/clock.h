// The host's clocks: the monotonic one is the time base of ranks, devices and profiles.
#pragma once
#include <chrono>
#include <cstdint>

namespace gemel {

/// Nanoseconds of the monotonic clock. Only differences are meaningful. All processes of a machine share the clock.
inline std::int64_t steady_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Seconds since 1970 by the machine's calendar clock, by which programs compare times.
inline double unix_seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace gemel
