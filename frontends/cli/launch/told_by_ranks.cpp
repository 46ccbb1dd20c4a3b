#include "frontends/cli/launch/told_by_ranks.h"

#include <algorithm>
#include <utility>

namespace gemel::cli {

/// Who was cut off and rank 0 tell in any order.
std::string ToldByRanks::take(const LauncherLine& line, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (line.begins) ranks_may_be_lost_ = true;
  if (line.status && !status_) status_ = line.status;
  std::optional<int> rank = line.gone_on_without;
  if (rank) left_.insert(*rank);
  if (line.loss_of_rank_0) {
    rank = line.loss_of_rank_0->by;
    cut_off_.try_emplace(*rank, Telling{now, *line.loss_of_rank_0});
  }
  if (!rank || !left_.contains(*rank) || !cut_off_.contains(*rank)) return "";
  return "gemel: " + given_up_text(*rank, cut_off_.at(*rank).loss.lost.ranks) + "\n";
}

bool ToldByRanks::ranks_may_be_lost() const {
  const std::lock_guard lock(mutex_);
  return ranks_may_be_lost_;
}

std::optional<int> ToldByRanks::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::optional<ToldLoss> ToldByRanks::loss_of_rank_0(Clock::time_point told_before) const {
  const std::lock_guard lock(mutex_);
  const Telling* first = nullptr;
  for (const auto& [rank, telling] : cut_off_)
    if (!left_.contains(rank) && telling.time <= told_before && (!first || telling.time < first->time)) first = &telling;
  return first && !status_ ? std::optional(first->loss) : std::nullopt;
}

}  // namespace gemel::cli
