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
  /// The ranks carried it out by another way.
  void forget(const std::string& name) { waiting_.erase(name); }

  struct Ready {
    Request request;    // the first of those ranks'
    std::string error;  // the ranks' requests differ; empty: they agree
  };
  /// What every rank has asked for or has joined instead, in the order in which it was first asked for; a group's all at once. A join comes
  /// last: `root` of its request is the rank that joined last. Each is told once.
  std::vector<Ready> take_ready();
  /// Why it cannot be carried out while some rank has joined; empty: it can.
  std::string refusal(const Request& request) const;
  /// Ranks that have run out of data: they take part with zeros.
  const std::set<int>& joined() const { return joined_; }

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
  Ready answer(const Asked& asked) const;

  int ranks_;
  std::size_t names_ = 0;  // asked for so far
  std::map<std::string, Asked> waiting_;
  std::set<int> joined_;
  int last_joined_ = -1;
};

}  // namespace gemel::parallel::horovod
