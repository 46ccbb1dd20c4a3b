// Notices: what the ranks of a run exchange before each step, and sums over ranks.
#pragma once
#include <cstddef>
#include <deque>
#include <future>
#include <span>
#include <vector>

#include "frontends/train/ranks.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/ddp/load_balance.h"

namespace gemel::distributed {

// Sums as numbers at the end of a list, for messages.
void put(std::vector<double>& out, const train::Sums& sums);
train::Sums sums_in(std::span<const double> numbers);
std::span<const double> numbers_in(const std::vector<std::byte>& bytes);

class Notices {
 public:
  explicit Notices(parallel::CommunicationThread& communication) : communication_(communication) {}

  struct Agreed {
    train::Notice all;
    std::vector<parallel::LoadBalancer::Seen> seen;  // [rank] measurements of an earlier step
  };
  /// Starts an exchange. Collective, like all functions below.
  void announce(train::Notice notice, const parallel::LoadBalancer::Seen& seen = {});
  /// Returns the result of the oldest exchange not returned yet. Sums are in the order of ranks, hence equal on all.
  Agreed agreed();
  train::Sums merge(const train::Sums& sums);

 private:
  static Agreed joined(parallel::Collectives& c, const train::Notice& mine, const parallel::LoadBalancer::Seen& seen);
  parallel::CommunicationThread& communication_;
  std::deque<std::future<Agreed>> announced_;
};

}  // namespace gemel::distributed
