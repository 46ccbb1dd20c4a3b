// Coordinator: what the ranks have asked for, and what of it all of them have. Every rank keeps one and adds the same requests in the same
// order, so all come to the same answer and nobody has to tell it.
#pragma once
#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "parallel/horovod/request.h"

namespace gemel::parallel::horovod {

class Coordinator {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Coordinator(int ranks) : ranks_(ranks) {}

  void add(int rank, const Request& request, Clock::time_point now);
  /// That rank asks for nothing more.
  void end(int rank, const Place& place) { ended_.emplace(rank, place); }
  /// The ranks carried it out by another way.
  void forget(const std::string& name) { waiting_.erase(name); }

  struct Ready {
    Request request;    // the first of those ranks'
    std::string error;  // the ranks' requests differ; empty: they agree
    int givers = 0;     // ranks that give data
    int ended = -1;     // a rank that has ended, and will not ask for it; -1: none
  };
  /// What every rank has asked for or has joined instead, and what one that has ended never will, in the order in which it was first asked for; a group's all
  /// at once. A join comes last: `root` of its request is the rank that joined last. Each is told once.
  std::vector<Ready> take_ready();
  /// Why it cannot be carried out while some rank has joined; empty: it can.
  std::string refusal(const Request& request) const;
  /// Ranks that have run out of data: they take part with what changes nothing.
  const std::set<int>& joined() const { return joined_; }
  /// How many ranks have data of it: all but those that joined before they asked for it.
  int givers(const std::string& name) const;
  /// A rank that has ended without having asked for it; -1: none.
  int never_asks(const std::string& name) const;
  const std::map<int, Place>& ended() const { return ended_; }
  bool all_ended() const { return std::ssize(ended_) == ranks_; }

  struct Waiting {
    std::string name;
    std::vector<int> missing;  // ranks that have not asked for it
    Clock::time_point since;
  };
  /// What some rank asked for before that time, and not all.
  std::vector<Waiting> waiting_since(Clock::time_point before) const;

 private:
  struct Asked {
    std::map<int, Request> by_rank;
    std::size_t order = 0;  // how many names were asked for before
    Clock::time_point since{};
  };
  bool has_all(const Asked& asked) const;
  int never_asks(const Asked& asked) const;
  Ready answer(const Asked& asked) const;

  int ranks_;
  std::size_t names_ = 0;  // asked for so far
  std::map<std::string, Asked> waiting_;
  std::set<int> joined_;
  int last_joined_ = -1;
  std::map<int, Place> ended_;
};

}  // namespace gemel::parallel::horovod
