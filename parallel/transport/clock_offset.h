// Clocks of several machines, brought to that of rank 0.
#pragma once
#include <cstdint>

#include "parallel/transport/communicator.h"

namespace gemel::parallel {

/// Nanoseconds that rank 0's steady clock is ahead of this rank's: 0 on its machine, elsewhere by messages to and fro. Collective.
std::int64_t clock_lead_ns(Communicator& c);

}  // namespace gemel::parallel
