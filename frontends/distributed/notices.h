// Notices: what the ranks of a run tell each other before a step, and sums of what they computed.
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

// As numbers, so that they travel: what stands for sums at the end of a list of them.
void put(std::vector<double>& out, const train::Sums& sums);
train::Sums sums_in(std::span<const double> numbers);
std::span<const double> numbers_in(const std::vector<std::byte>& bytes);

class Notices {
 public:
  explicit Notices(parallel::CommunicationThread& communication) : communication_(communication) {}

  struct Agreed {
    train::Notice all;
    std::vector<parallel::Balance::Seen> seen;  // [rank] in an earlier step
  };
  /// Begins an exchange. Collective, like all that follows.
  void announce(train::Notice notice, const parallel::Balance::Seen& seen = {});
  /// Of the oldest one that was not asked for yet. Sums are made in the order of ranks: they are the same on all.
  Agreed agreed();
  train::Sums merge(const train::Sums& sums);

 private:
  static Agreed joined(parallel::Collectives& c, const train::Notice& mine, const parallel::Balance::Seen& seen);
  parallel::CommunicationThread& communication_;
  std::deque<std::future<Agreed>> announced_;
};

}  // namespace gemel::distributed
