// Moments of the shards of a batch, gathered from all ranks: what synchronised batch normalisation stands on.
#pragma once
#include <cstdint>
#include <memory>

#include "engine/attributes.h"
#include "engine/ops/ops.h"
#include "engine/session.h"
#include "parallel/communication_thread.h"

namespace gemel::parallel {

class MomentsOverRanks : public State, public std::enable_shared_from_this<MomentsOverRanks> {
 public:
  MomentsOverRanks(Session& session, CommunicationThread& communication) : session_(session), communication_(communication) {}

  /// In operators, on every rank in the same order: [ranks, channels] each. Gradients come back to the rank whose moments they are of,
  /// summed over those that used them.
  /// @param rows  whose moments these are
  PartMoments gather(const Moments& mine, std::int64_t rows);

  Session& session() const { return session_; }
  CommunicationThread& communication() const { return communication_; }

 private:
  Session& session_;
  CommunicationThread& communication_;
};

}  // namespace gemel::parallel
