// Coordinator: keeps the requests of all ranks and finds those that all ranks have made. Every rank keeps one and adds the same requests in the same order, so
// all find the same without a message.
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
  /// Records that a rank makes no more requests.
  void end(int rank, const Place& place) { ended_.emplace(rank, place); }
  /// Removes a request that the ranks carried out without it.
  void forget(const std::string& name) { waiting_.erase(name); }

  struct Ready {
    Request request;    // that of the first rank
    std::string error;  // why the ranks' requests differ; empty: they agree
    int givers = 0;     // number of ranks that give data
    int ended = -1;     // a rank that has ended without this request; -1: none
  };
  /// Returns the requests that every rank has made or has joined instead of, and those that a rank which has ended never will make, once each, in the order of
  /// their first rank's request; those of a group together. A join comes last, with the rank that joined last as `root`.
  std::vector<Ready> take_ready();
  /// Returns why a request cannot be carried out while some rank has joined; empty if it can.
  std::string refusal(const Request& request) const;
  /// Ranks that have run out of data and take part with neutral data.
  const std::set<int>& joined() const { return joined_; }
  /// Number of ranks that give data to a request: all but those that joined before they made it.
  int givers(const std::string& name) const;
  /// A rank that has ended without making a request; -1: none.
  int never_asks(const std::string& name) const;
  const std::map<int, Place>& ended() const { return ended_; }
  bool all_ended() const { return std::ssize(ended_) == ranks_; }

  struct Waiting {
    std::string name;
    std::vector<int> missing;  // ranks that have not made the request
    Clock::time_point since;
  };
  /// Returns requests that some but not all ranks made before that time.
  std::vector<Waiting> waiting_since(Clock::time_point before) const;

 private:
  struct Asked {
    std::map<int, Request> by_rank;
    std::size_t order = 0;  // number of names requested before
    Clock::time_point since{};
  };
  bool has_all(const Asked& asked) const;
  int never_asks(const Asked& asked) const;
  Ready answer(const Asked& asked) const;

  int ranks_;
  std::size_t names_ = 0;  // number of names requested so far
  std::map<std::string, Asked> waiting_;
  std::set<int> joined_;
  int last_joined_ = -1;
  std::map<int, Place> ended_;
};

}  // namespace gemel::parallel::horovod
