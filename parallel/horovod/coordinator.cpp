#include "parallel/horovod/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

namespace gemel::parallel::horovod {

void Coordinator::add(int rank, const Request& request, Clock::time_point now) {
  if (request.operation == Operation::join) {
    joined_.insert(rank);
    last_joined_ = rank;
    return;
  }
  const auto [it, is_new] = waiting_.try_emplace(request.name);
  if (is_new) it->second = {{}, names_++, now};
  it->second.by_rank.insert_or_assign(rank, request);
}

bool Coordinator::has_all(const Asked& asked) const {
  for (int r = 0; r < ranks_; ++r)
    if (!asked.by_rank.contains(r) && !joined_.contains(r)) return false;
  return true;
}

int Coordinator::givers(const std::string& name) const {
  const auto asked = waiting_.find(name);
  return ranks_ - static_cast<int>(std::ranges::count_if(joined_, [&](int r) { return asked == waiting_.end() || !asked->second.by_rank.contains(r); }));
}

int Coordinator::never_asks(const std::string& name) const {
  const auto asked = waiting_.find(name);
  return never_asks(asked == waiting_.end() ? Asked{} : asked->second);
}

int Coordinator::never_asks(const Asked& asked) const {
  for (const auto& [rank, place] : ended_)
    if (!asked.by_rank.contains(rank) && !joined_.contains(rank)) return rank;
  return -1;
}

/// What a rank without data cannot take part in.
std::string Coordinator::refusal(const Request& r) const {
  if (joined_.empty()) return {};
  const auto refuse = [&](const std::string& what) { return fmt::format("horovod: {}: {}", r.name, what); };
  if (r.operation == Operation::all_to_all) return refuse("an all_to_all goes on while a rank has joined; accepted: all ranks, or none that has joined");
  if (r.operation == Operation::broadcast && joined_.contains(r.root))
    return refuse(fmt::format("the root, rank {}, has joined; accepted: a root that has data", r.root));
  return {};
}

Coordinator::Ready Coordinator::answer(const Asked& asked) const {
  const auto& [first_rank, first] = *asked.by_rank.begin();
  for (const auto& [rank, request] : asked.by_rank)
    if (std::string error = disagreement({first_rank, first}, {rank, request}); !error.empty()) return {first, std::move(error)};
  return {first, refusal(first), givers(first.name)};
}

std::vector<Coordinator::Ready> Coordinator::take_ready() {
  std::map<std::string, int> complete;  // members, by group
  for (const auto& [name, asked] : waiting_)
    if (has_all(asked)) ++complete[asked.by_rank.begin()->second.group];
  std::map<std::size_t, Ready> in_order;
  const auto is_complete = [&](const Asked& asked) {
    const Request& first = asked.by_rank.begin()->second;
    return has_all(asked) && (first.group.empty() || complete[first.group] >= first.members);
  };
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const int never = never_asks(it->second);
    if (never < 0 && !is_complete(it->second)) {
      ++it;
      continue;
    }
    in_order.emplace(it->second.order, never < 0 ? answer(it->second) : Ready{it->second.by_rank.begin()->second, "", 0, never});
    it = waiting_.erase(it);
  }
  std::vector<Ready> out;
  for (auto& [order, ready] : in_order) out.push_back(std::move(ready));
  if (std::ssize(joined_) == ranks_) {
    Request all{.operation = Operation::join, .name = "join", .root = last_joined_};
    out.push_back({std::move(all), ""});
    joined_.clear();
  } else if (!joined_.empty() && !ended_.empty()) {
    out.push_back({{.operation = Operation::join, .name = "join"}, "", 0, ended_.begin()->first});
    joined_.clear();
  }
  return out;
}

std::vector<Coordinator::Waiting> Coordinator::waiting_since(Clock::time_point before) const {
  std::vector<Waiting> out;
  for (const auto& [name, asked] : waiting_) {
    if (asked.since >= before) continue;
    Waiting w{name, {}, asked.since};
    for (int r = 0; r < ranks_; ++r)
      if (!asked.by_rank.contains(r) && !joined_.contains(r)) w.missing.push_back(r);
    out.push_back(std::move(w));
  }
  return out;
}

}  // namespace gemel::parallel::horovod
