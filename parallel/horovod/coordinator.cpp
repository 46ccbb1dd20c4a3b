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

/// What a rank without data cannot take part in.
std::string Coordinator::refusal(const Request& r) const {
  if (joined_.empty()) return {};
  const auto refuse = [&](const std::string& what) { return fmt::format("horovod: {}: {}", r.name, what); };
  if (r.operation == Operation::all_to_all) return refuse("an all_to_all goes on while a rank has joined; accepted: all ranks, or none that has joined");
  if (r.operation == Operation::broadcast && joined_.contains(r.root)) return refuse(fmt::format("the root, rank {}, has joined; accepted: a root that has data", r.root));
  const bool adds = r.reduction == Reduction::sum || r.reduction == Reduction::mean;
  if ((r.operation == Operation::all_reduce || r.operation == Operation::reduce_scatter) && !adds)
    return refuse(fmt::format("the reduction is {} while a rank has joined; accepted: sum, mean", to_string(r.reduction)));
  return {};
}

Coordinator::Ready Coordinator::answer(const Asked& asked) const {
  const auto& [first_rank, first] = *asked.by_rank.begin();
  for (const auto& [rank, request] : asked.by_rank)
    if (std::string error = disagreement({first_rank, first}, {rank, request}); !error.empty()) return {first, std::move(error)};
  return {first, refusal(first)};
}

std::vector<Coordinator::Ready> Coordinator::take_ready() {
  std::map<std::string, int> complete;  // members, by group
  for (const auto& [name, asked] : waiting_)
    if (has_all(asked)) ++complete[asked.by_rank.begin()->second.group];
  std::map<std::size_t, Ready> in_order;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const Request& first = it->second.by_rank.begin()->second;
    if (!has_all(it->second) || (!first.group.empty() && complete[first.group] < first.members)) {
      ++it;
      continue;
    }
    in_order.emplace(it->second.order, answer(it->second));
    it = waiting_.erase(it);
  }
  std::vector<Ready> out;
  for (auto& [order, ready] : in_order) out.push_back(std::move(ready));
  if (std::ssize(joined_) == ranks_) {
    Request all{.operation = Operation::join, .name = "join", .root = last_joined_};
    out.push_back({std::move(all), ""});
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
