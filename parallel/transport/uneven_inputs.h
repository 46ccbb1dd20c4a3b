// Attendance: how long each rank takes part in what the ranks of a communicator do together. One that ends, and one that has joined as it ran out of
// data, tells the others after how many collectives: what it has done is there for those that are slower, and nobody waits for what it will never do.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/dtype.h"
#include "parallel/all_reduce_algorithm.h"
#include "parallel/reduction.h"
#include "parallel/transport/spin_wait.h"

namespace gemel::parallel {

class Attendance;

/// A collective, so far as a rank must know it that takes part without data.
struct Call {
  enum class Kind : std::uint8_t { all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, barrier, memory };
  Kind kind = Kind::barrier;
  DType dtype = DType::float32;
  Reduction reduction = Reduction::sum;
  Algorithm algorithm = Algorithm::tree;
  int root = 0;
  std::int64_t count = 0;  // elements, or bytes that are broadcast
};
/// "all-reduce", "broadcast", ...
const char* to_string(Call::Kind kind);

/// What a rank tells another one beside all messages.
struct Note {
  enum class Kind : std::uint8_t { ended, joined, call };
  Kind kind = Kind::ended;
  std::int64_t round = 0;               // after how many it ended or joined; the number of the call
  std::int64_t step = 0;                // that it was at; 0: none
  std::int64_t sent = 0, received = 0;  // messages to the one that is told, and those from it that were asked for
  Call call{};
  // Of a rank that ends because another one has: which, and what that one said.
  int because_of = -1;
  std::int64_t round_of_cause = 0, step_of_cause = 0;
};

/// What carries notes: at once, without a wait; those from one rank to another in their order.
class Notes {
 public:
  virtual ~Notes() = default;
  virtual void tell(int to, const Note& note) = 0;
  struct Heard {
    int from;
    Note note;
  };
  virtual std::optional<Heard> hear() = 0;
};

/// What ends the waits of one rank, in all its communicators: an abort, and the end of a rank that it waits for.
class RankWaits : public WaitCheck {
 public:
  /// @param hosts  [rank] of the whole job
  RankWaits(const AbortFlag& abort, std::vector<std::string> hosts) : abort_(abort), hosts_(std::move(hosts)) {}
  void check() const override;
  bool aborted() const { return abort_.raised(); }

  /// For errors: what is communicated, "the gradient of fc.weight"; and the step that it is of.
  void tell_doing(std::function<std::string()> doing) { doing_ = std::move(doing); }
  void at_step(std::int64_t step) { step_ = step; }

 private:
  friend class Attendance;
  const AbortFlag& abort_;
  std::vector<std::string> hosts_;
  std::vector<Attendance*> of_;  // its communicators, the job's first
  std::function<std::string()> doing_;
  std::int64_t step_ = 0;
};

/// The text of an error: where a rank that ended was, and where the one is that waits for it.
struct Place {
  std::int64_t step = 0, count = 0;  // of steps, counted from 1, or 0; else of what is counted instead
};
/// `rank 2 of 3 on HOST has ended (after step 41); this rank is at step 42`
/// @param counted  "collective", "request"
std::string has_ended(int rank, const std::vector<std::string>& hosts, const Place& ended, const Place& here, const char* counted);
inline constexpr const char* kAcceptedOfUneven = "; accepted: join() for uneven loops";

/// Of one rank in one communicator; in the thread that uses it.
class Attendance {
 public:
  /// @param ranks  [rank] their numbers in the job
  Attendance(Notes& notes, std::shared_ptr<RankWaits> waits, int rank, std::vector<int> ranks);
  ~Attendance();
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  /// A collective under way, in which all ranks take part, in the same order. Those that it consists of do not count.
  class Round {
   public:
    Round(Attendance& attendance, const Call& call);
    ~Round();
    Round(const Round&) = delete;
    Round& operator=(const Round&) = delete;

   private:
    Attendance& attendance_;
    bool outermost_;
    int exceptions_;
  };
  /// Ranks that gave data in the last round, once it is done: a mean is over them.
  int givers() const;

  /// A message between two ranks, by its number among those of its way.
  struct Message {
    int peer;
    bool sent;
    std::int64_t number;
  };
  Message sends(int to) { return {to, true, ++peer(to).sends}; }
  Message receives(int from) { return {from, false, ++peer(from).receives}; }
  class Awaited {
   public:
    Awaited(Attendance& attendance, const Message& message) : attendance_(attendance) { attendance.awaited_ = message; }
    ~Awaited() { attendance_.awaited_.reset(); }
    Awaited(const Awaited&) = delete;
    Awaited& operator=(const Awaited&) = delete;

   private:
    Attendance& attendance_;
  };

  /// This rank takes part in nothing more. Where its job is given up nobody is told.
  void end();
  /// Whether all others have ended.
  bool all_ended();

  /// This rank has run out of data: `next_call` says what it takes part in without, until all ranks have joined.
  void join();
  /// Waits. Nothing: all have joined. @throws CommError where a rank ended without having joined
  std::optional<Call> next_call();
  /// All have joined, and begin anew. Before any gives data again they meet. @return the rank that joined last, of several the one with the largest number
  int all_joined();

  /// Of some ranks in the job.
  std::vector<int> numbers_of(std::span<const int> ranks) const;
  /// @throws CommError where what this rank does now waits for one that will not do its part
  void look();

 private:
  struct Peer {
    std::optional<Note> ended, joined;
    std::int64_t told = 0;                 // the last call that it was told of
    std::int64_t sends = 0, receives = 0;  // to it and from it, so far
  };
  struct Described {
    Call call;
    std::set<int> by{};
  };
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(peers_.size()); }
  void listen();
  void take(int from, const Note& note);
  void tell_all(Note note);
  void tell_calls(int to);
  bool lacks(int rank) const;
  bool can_take_part(std::int64_t round) const;
  [[noreturn]] void refuse(int rank);

  Notes& notes_;
  std::shared_ptr<RankWaits> waits_;
  int rank_;
  std::vector<int> ranks_;
  std::vector<Peer> peers_;  // [rank]; this one's own: whether it has joined
  std::int64_t round_ = 0;   // rounds begun
  int depth_ = 0;            // of rounds under way
  bool broken_ = false;      // an error left the last round
  int because_of_ = -1;      // the rank that `look` refused to wait for
  bool joining_ = false;     // waits in next_call
  bool has_ended_ = false;
  std::optional<Message> awaited_;
  std::deque<std::pair<std::int64_t, Call>> calls_;  // that some rank may not have begun: no later one has shown that it has
  std::map<std::int64_t, Described> described_;      // by others, while this rank has joined
};

}  // namespace gemel::parallel
