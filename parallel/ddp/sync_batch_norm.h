// Moments of the shards of a batch, gathered from all ranks: what synchronised batch normalisation stands on.
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

  /// In operators, on every rank in the same order: [ranks, channels] each. Gradients come back to the rank whose moments they are of,
  /// summed over those that used them.
  /// @param rows  whose moments these are
  PartMoments gather(const Moments& mine, std::int64_t rows);

  /// Who is told of the seconds that the session waited for each exchange, in the communication thread.
  void tell_waits(std::function<void(double seconds)> told) { told_ = std::move(told); }

  /// Communication in the step: what the session computes from now on waits for it.
  template <class Work>
  void exchange(Work work) {
    in_step(session_, communication_, [self = shared_from_this(), work = std::move(work)](Collectives& c, const Event& computed) {
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
