// Converts clocks of several machines to that of rank 0.
#pragma once
#include <cstdint>

#include "parallel/transport/communicator.h"

namespace gemel::parallel {

/// Returns the nanoseconds that rank 0's steady clock is ahead of this rank's: 0 on the same machine, else measured by round trips. Collective.
std::int64_t clock_lead_ns(Communicator& c);

}  // namespace gemel::parallel
