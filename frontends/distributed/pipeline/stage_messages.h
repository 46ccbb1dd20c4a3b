// StageMessages: what a pipeline's stage sends and receives while it computes.
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

/// The messages of a stage in one step, each of several tensors in a fixed order under the schedule's tag. The communication thread carries them in the order
/// of the calls. The tensors of a send are kept until the schedule proves that it has arrived, that is, when the other stage has sent something that it sends
/// only after the receive. Thus no send is waited for before it is due, and no more is kept than the other stage is behind. In an evaluation, in which no stage
/// answers, all are kept until `finish`.
class StageMessages {
 public:
  /// @param schedule  must outlive this object  @param first_rank  rank of stage 0
  StageMessages(Session& session, parallel::CommunicationThread& communication, const parallel::Schedule& schedule, int first_rank);
  /// Waits until submitted work no longer uses the session. If an error ended the step, abort communication first.
  ~StageMessages();
  StageMessages(const StageMessages&) = delete;
  StageMessages& operator=(const StageMessages&) = delete;

  /// Starts a receive. Receives of one tag are started in the order in which they are taken.
  void expect(const parallel::Action& receive, const Specs& specs);
  /// Waits for the oldest receive of this tag.
  /// @throws CommError if a stage failed
  Values take(const parallel::Action& receive);
  /// Sends values once the session has computed them. The host does not wait.
  void send(const parallel::Action& send, Values values);
  /// Waits until all sends have arrived.
  /// @throws CommError if a stage failed
  void finish();
  /// Seconds that `take` and `finish` waited while the session had nothing to compute.
  double exposed_s() const { return exposed_s_; }
  /// Spans of the messages taken, from the beginning of the wait.
  const std::vector<parallel::Span>& spans() const { return spans_; }

 private:
  struct Incoming;
  struct Outgoing;
  struct Sent {
    std::shared_ptr<Outgoing> message;
    Values values;  // freed in the session's thread alone
    int to;
    std::size_t received_at;    // place of its receive among the other stage's actions
    std::future<void> arrived;  // not valid until somebody waits for it
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
