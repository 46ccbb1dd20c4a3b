// The host's clock that only goes on: what times of ranks, devices and traces are told by.
#pragma once
#include <chrono>
#include <cstdint>

namespace gemel {

/// Nanoseconds; only differences mean something. The same for all processes of a machine.
inline std::int64_t steady_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace gemel
