// Participation: supports ranks with uneven inputs. A rank that ends, or joins because it has run out of data, tells the others after how many collectives.
// They can still receive what it has sent, and do not wait for what it will never do.
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

class Participation;

/// Description of a collective, for a rank that takes part without data.
struct Call {
  enum class Kind : std::uint8_t { all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, barrier, memory };
  Kind kind = Kind::barrier;
  DType dtype = DType::float32;
  Reduction reduction = Reduction::sum;
  Algorithm algorithm = Algorithm::tree;
  int root = 0;
  std::int64_t count = 0;  // elements; bytes for broadcast
};
/// "all-reduce", "broadcast", ...
const char* to_string(Call::Kind kind);

/// A notice from one rank to another, outside of messages.
struct Note {
  enum class Kind : std::uint8_t { ended, joined, call };
  Kind kind = Kind::ended;
  std::int64_t round = 0;               // number of collectives before it ended or joined; the number of the call
  std::int64_t step = 0;                // step that the rank was at; 0: none
  std::int64_t sent = 0, received = 0;  // messages to the receiver, and receives from it that were started
  Call call{};
  // If a rank ends because another one has: that rank, and its round and step.
  int because_of = -1;
  std::int64_t round_of_cause = 0, step_of_cause = 0;
};

/// Carries notes without waiting; notes from one rank to another stay in order.
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

/// Ends the waits of one rank in all its communicators: on an abort, or when a rank that it waits for has ended.
class RankWaits : public WaitCheck {
 public:
  /// @param hosts  [rank] of the job
  RankWaits(const AbortFlag& abort, std::vector<std::string> hosts) : abort_(abort), hosts_(std::move(hosts)) {}
  void check() const override;
  bool aborted() const { return abort_.raised(); }

  /// Sets callbacks for error messages: what is being communicated ("the gradient of fc.weight"), and the step.
  void tell_doing(std::function<std::string()> doing) { doing_ = std::move(doing); }
  void at_step(std::int64_t step) { step_ = step; }

 private:
  friend class Participation;
  const AbortFlag& abort_;
  std::vector<std::string> hosts_;
  std::vector<Participation*> of_;  // communicators of the rank, that of the job first
  std::function<std::string()> doing_;
  std::int64_t step_ = 0;
};

/// Progress of a rank, for error messages.
struct Place {
  std::int64_t step = 0, count = 0;  // step from 1, or 0; then count is used: of collectives or requests
};
/// Returns `rank 2 of 3 on HOST has ended (after step 41); this rank is at step 42`.
/// @param counted  unit of Place::count: "collective", "request"
std::string has_ended(int rank, const std::vector<std::string>& hosts, const Place& ended, const Place& here, const char* counted);
inline constexpr const char* kAcceptedOfUneven = "; accepted: join() for uneven loops";

/// Participation of one rank in one communicator, used in the communicator's thread.
class Participation {
 public:
  /// @param ranks  [rank] its number in the job
  Participation(Notes& notes, std::shared_ptr<RankWaits> waits, int rank, std::vector<int> ranks);
  ~Participation();
  Participation(const Participation&) = delete;
  Participation& operator=(const Participation&) = delete;

  /// A collective in which all ranks take part, in the same order. Collectives within it are not counted.
  class Round {
   public:
    Round(Participation& participation, const Call& call);
    ~Round();
    Round(const Round&) = delete;
    Round& operator=(const Round&) = delete;

   private:
    Participation& participation_;
    bool outermost_;
    int exceptions_;
  };
  /// Number of ranks that gave data in the last collective, which a mean divides by.
  int givers() const;

  /// A message between two ranks, with its number among those in the same direction.
  struct Message {
    int peer;
    bool sent;
    std::int64_t number;
  };
  Message sends(int to) { return {to, true, ++peer(to).sends}; }
  Message receives(int from) { return {from, false, ++peer(from).receives}; }
  class Awaited {
   public:
    Awaited(Participation& participation, const Message& message) : participation_(participation) { participation.awaited_ = message; }
    ~Awaited() { participation_.awaited_.reset(); }
    Awaited(const Awaited&) = delete;
    Awaited& operator=(const Awaited&) = delete;

   private:
    Participation& participation_;
  };

  /// Tells the others that this rank takes part in nothing more; tells nobody if the job was aborted.
  void end();
  /// True if all other ranks have ended.
  bool all_ended();

  /// Records that this rank has run out of data. Until all ranks have joined, `next_call` returns the collectives in which it must take part.
  void join();
  /// Waits for the next collective; nothing if all ranks have joined.
  /// @throws CommError if a rank ended without having joined
  std::optional<Call> next_call();
  /// Starts anew after all ranks have joined. They must meet before any gives data again.
  /// @return the rank that joined last; of several the largest
  int all_joined();

  /// Numbers in the job of some ranks.
  std::vector<int> numbers_of(std::span<const int> ranks) const;
  /// @throws CommError if this rank waits for a rank that will not do its part
  void look();

 private:
  struct Peer {
    std::optional<Note> ended, joined;
    std::int64_t told = 0;                 // the last call that it was told
    std::int64_t sends = 0, receives = 0;  // messages to it and from it so far
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
  std::vector<Peer> peers_;  // [rank]; this rank's own entry says if it has joined
  std::int64_t round_ = 0;   // collectives begun
  int depth_ = 0;            // nesting of collectives in progress
  bool broken_ = false;      // an error ended the last collective
  int because_of_ = -1;      // the rank that `look` reported
  bool joining_ = false;     // waiting in next_call
  bool has_ended_ = false;
  std::optional<Message> awaited_;
  std::deque<std::pair<std::int64_t, Call>> calls_;  // calls that some rank may not have begun, as far as is known
  std::map<std::int64_t, Described> described_;      // by others, while this rank has joined
};

}  // namespace gemel::parallel
