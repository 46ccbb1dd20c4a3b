// ToldByRanks: what the ranks of a job that may go on without some of them tell the launcher, and what follows from it.
#pragma once
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "frontends/cli/job/launch_messages.h"

namespace gemel::cli {

/// Thread-safe.
class ToldByRanks {
 public:
  using Clock = std::chrono::steady_clock;

  /// @return a line for the user, or nothing
  std::string take(const LauncherLine& line, Clock::time_point now);

  bool ranks_may_be_lost() const;
  /// How the job ends. The first status counts: what ranks tell later follows from it.
  std::optional<int> status() const;
  /// The loss of rank 0, if a rank told of it at that time or before, and rank 0 neither goes on without this rank nor told how the job ends. Of several the
  /// earliest.
  std::optional<ToldLoss> loss_of_rank_0(Clock::time_point told_before) const;

 private:
  struct Telling {
    Clock::time_point time;
    ToldLoss loss;
  };
  mutable std::mutex mutex_;
  bool ranks_may_be_lost_ = false;
  std::optional<int> status_;
  std::set<int> left_;              // ranks without which rank 0 goes on
  std::map<int, Telling> cut_off_;  // [rank] that lost rank 0
};

}  // namespace gemel::cli
