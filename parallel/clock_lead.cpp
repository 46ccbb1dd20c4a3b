// Clocks of several machines, brought to that of rank 0.
#include <limits>

#include "engine/base/clock.h"
#include "frontends/distributed/data_parallel.h"
#include "parallel/communicator.h"

namespace gemel::distributed {
namespace {

constexpr int kRounds = 16;  // of which the quickest counts: what is late says little

std::int64_t asked_of_first(parallel::Communicator& c) {
  std::int64_t lead = 0, quickest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kRounds; ++i) {
    std::int64_t begin = steady_ns(), theirs = 0;
    parallel::Transfer request = c.send(0, parallel::raw_bytes(begin));
    c.receive(0, parallel::raw_bytes(theirs)).wait();
    const std::int64_t end = steady_ns();
    request.wait();
    if (end - begin >= quickest) continue;
    quickest = end - begin;
    lead = theirs - (begin + end) / 2;
  }
  return lead;
}

void answer(parallel::Communicator& c, int rank) {
  for (int i = 0; i < kRounds; ++i) {
    std::int64_t request = 0;
    c.receive(rank, parallel::raw_bytes(request)).wait();
    std::int64_t mine = steady_ns();
    c.send(rank, parallel::raw_bytes(mine)).wait();
  }
}

}  // namespace

std::int64_t clock_lead_ns(parallel::CommunicationThread& communication) {
  return communication.run([](parallel::Collectives& collectives) -> std::int64_t {
    parallel::Communicator& c = collectives.communicator();
    if (c.host(c.rank()) != c.host(0)) return asked_of_first(c);
    for (int r = 1; c.rank() == 0 && r < c.size(); ++r)
      if (c.host(r) != c.host(0)) answer(c, r);
    return 0;
  });
}

}  // namespace gemel::distributed
