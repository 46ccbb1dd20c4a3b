#include "parallel/transport/clock_offset.h"

#include <limits>

#include "engine/base/clock.h"

namespace gemel::parallel {
namespace {

constexpr int kRounds = 16;  // of which the quickest counts: what is late says little

std::int64_t asked_of_first(Communicator& c) {
  std::int64_t lead = 0, quickest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kRounds; ++i) {
    std::int64_t begin = steady_ns(), theirs = 0;
    Transfer request = c.send(0, raw_bytes(begin));
    c.receive(0, raw_bytes(theirs)).wait();
    const std::int64_t end = steady_ns();
    request.wait();
    if (end - begin >= quickest) continue;
    quickest = end - begin;
    lead = theirs - (begin + end) / 2;
  }
  return lead;
}

void answer(Communicator& c, int rank) {
  for (int i = 0; i < kRounds; ++i) {
    std::int64_t request = 0;
    c.receive(rank, raw_bytes(request)).wait();
    std::int64_t mine = steady_ns();
    c.send(rank, raw_bytes(mine)).wait();
  }
}

}  // namespace

std::int64_t clock_lead_ns(Communicator& c) {
  if (c.host(c.rank()) != c.host(0)) return asked_of_first(c);
  for (int r = 1; c.rank() == 0 && r < c.size(); ++r)
    if (c.host(r) != c.host(0)) answer(c, r);
  return 0;
}

}  // namespace gemel::parallel
