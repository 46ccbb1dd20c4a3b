// What a pipeline's stage sends to others and receives from them, beside its own work.
#pragma once
#include <cstddef>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <vector>

#include "engine/core/session.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/communication_span.h"
#include "parallel/pipeline/schedule.h"

namespace gemel::distributed {

/// The messages of one step of one stage, each of several tensors in a fixed order under the schedule's tag. The communication thread
/// carries them in the order of these calls. A send's tensors are kept until it is known from the schedule to have arrived: when the other
/// stage says something that it says only after it. So nothing is waited for that is not there yet, and no more is kept than that stage is
/// behind; of an evaluation, in which none answers, all until `finish`.
class StageMessages {
 public:
  /// @param schedule  outlives this  @param first_rank  of the communication: stage 0
  StageMessages(Session& session, parallel::CommunicationThread& communication, const parallel::Schedule& schedule, int first_rank);
  /// Waits until nothing that was submitted uses the session. Where an error ended the step, communication is to be aborted before.
  ~StageMessages();
  StageMessages(const StageMessages&) = delete;
  StageMessages& operator=(const StageMessages&) = delete;

  /// Begins a receive; of one tag in the order in which they are taken.
  void expect(const parallel::Action& receive, const Specs& specs);
  /// Waits for the oldest one expected of this tag. @throws CommError where a stage failed
  Values take(const parallel::Action& receive);
  /// Begins when the session has computed what it sends. The host goes on.
  void send(const parallel::Action& send, Values values);
  /// All that was sent has arrived. @throws CommError where a stage failed
  void finish();
  /// Seconds that the session had nothing to compute and waited in `take` and `finish`.
  double exposed_s() const { return exposed_s_; }
  /// Of each message that was taken, from where it was waited for.
  const std::vector<parallel::Span>& spans() const { return spans_; }

 private:
  struct Incoming;
  struct Outgoing;
  struct Sent {
    std::shared_ptr<Outgoing> message;
    Values values;  // of the session's thread, which alone frees tensors
    int to;
    std::size_t received_at;    // the place of its receive among the other stage's actions
    std::future<void> arrived;  // not valid as long as nobody waits for it
  };
  std::size_t place(int stage, const parallel::Action& action) const;
  void wait_for(Sent& sent);
  void drop_arrived();

  Session& session_;
  parallel::CommunicationThread& communication_;
  const parallel::Schedule& schedule_;
  int first_rank_;
  double exposed_s_ = 0;
  std::vector<parallel::Span> spans_;
  std::map<int, std::deque<std::shared_ptr<Incoming>>> expected_;  // [tag]
  std::deque<Sent> sent_;
};

}  // namespace gemel::distributed
