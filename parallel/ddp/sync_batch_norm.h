// MomentsOverRanks: gathers the moments of a batch's shards from all ranks, for synchronised batch normalisation.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "engine/base/clock.h"
#include "engine/core/attributes.h"
#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/ddp/stream_ordered.h"

namespace gemel::parallel {

class MomentsOverRanks : public State, public std::enable_shared_from_this<MomentsOverRanks> {
 public:
  MomentsOverRanks(Session& session, CommunicationThread& communication) : session_(session), communication_(communication) {}

  /// Gathers the moments of all ranks, [ranks, channels] each, in operators, on every rank in the same order. Their gradients flow back to the rank that
  /// contributed them, summed over the ranks that used them.
  /// @param rows  number of rows that the moments are of
  PartMoments gather(const Moments& mine, std::int64_t rows);

  /// Sets a callback for the seconds that the session waited for each exchange; called in the communication thread.
  void tell_waits(std::function<void(double seconds)> told) { told_ = std::move(told); }

  /// Submits communication that is ordered with the session's work, see submit_stream_ordered.
  template <class Work>
  void exchange(Work work) {
    submit_stream_ordered(session_, communication_, [self = shared_from_this(), work = std::move(work)](Collectives& c, const Event& computed) {
      computed.wait();
      const std::int64_t begin = steady_ns();
      work(c, computed);
      if (self->told_) self->told_(1e-9 * static_cast<double>(steady_ns() - begin));
    });
  }

 private:
  std::function<void(double)> told_;
  Session& session_;
  CommunicationThread& communication_;
};

}  // namespace gemel::parallel
