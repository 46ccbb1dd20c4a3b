#include "parallel/parameter_server/server_peers.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace gemel::parallel {

std::vector<int> ServerPeers::ranks() const {
  std::vector<int> out;
  for (const auto& [rank, connection] : connections_) out.push_back(rank);
  return out;
}

ServerPeers::Event ServerPeers::next() {
  for (;;) {
    alarm_.check();
    std::vector<int> order = ranks();
    std::ranges::rotate(order, std::ranges::upper_bound(order, last_));
    std::vector<pollfd> on{{alarm_.descriptor(), POLLIN, 0}};
    for (const int rank : order) {
      if (const auto why = alarm_.loss_of(rank)) return {.rank = rank, .gone = true, .why = *why};
      on.push_back({of(rank).descriptor(), POLLIN, 0});
    }
    if (::poll(on.data(), on.size(), -1) <= 0) continue;  // a signal
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (on[i + 1].revents == 0) continue;
      last_ = order[i];
      try {
        return {.rank = last_, .delivery = of(last_).receive()};
      } catch (const PeerGone& e) {
        return {.rank = last_, .gone = true, .why = e.why()};
      }
    }
  }
}

}  // namespace gemel::parallel
