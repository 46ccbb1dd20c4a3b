// Staleness: workers of different speeds, step by step, without threads.
#include "parallel/parameter_server/staleness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <queue>
#include <random>

namespace gemel::parallel {
namespace {

/// Workers that take so long for a step. Each reads as soon as it may, and its gradient is applied as soon as it may be.
struct Simulation {
  std::optional<std::int64_t> bound;
  std::vector<int> times;  // [worker] of a step, and with `jitter` up to as much more
  bool jitter = false;
  std::int64_t most_updates = 0, most_behind = 0;
  std::vector<std::int64_t> steps;  // [worker]

  void run(std::int64_t updates) {
    Staleness rule(bound);
    std::mt19937 random(7);
    const int workers = static_cast<int>(times.size());
    steps.assign(times.size(), 0);
    for (int w = 0; w < workers; ++w) rule.add_worker(w);
    std::map<int, std::int64_t> done_at;  // [worker that computes]
    std::vector<int> arrived;
    for (std::int64_t now = 0; rule.version() < updates; ++now) {
      ASSERT_LT(now, 1'000'000) << "nobody may go on";
      for (int w = 0; w < workers; ++w)
        if (const auto found = done_at.find(w); found != done_at.end() && found->second <= now) {
          arrived.push_back(w);
          done_at.erase(found);
        }
      for (bool goes_on = true; goes_on;) {
        const auto found = std::ranges::find_if(arrived, [&](int w) { return rule.may_apply(w); });
        goes_on = found != arrived.end();
        if (!goes_on) break;
        const GradientAge age = rule.apply(*found);
        most_updates = std::max(most_updates, age.updates);
        most_behind = std::max(most_behind, age.steps_behind);
        ++steps[static_cast<std::size_t>(*found)];
        arrived.erase(found);
      }
      std::vector<int> waiting;
      for (int w = 0; w < workers; ++w)
        if (!rule.is_under_way(w)) waiting.push_back(w);
      std::ranges::stable_sort(waiting, {}, [&](int w) { return rule.steps_of(w); });
      for (const int w : waiting)
        if (rule.may_read(w)) {
          rule.read(w);
          const int time = times[static_cast<std::size_t>(w)];
          done_at[w] = now + time + (jitter ? static_cast<int>(random() % static_cast<unsigned>(time)) : 0);
        }
    }
  }
};

TEST(Staleness, never_exceeds_the_bound_and_nobody_waits_for_ever) {
  for (const std::int64_t bound : {1, 2, 4, 9})
    for (const std::vector<int>& times : {std::vector{10, 10}, {10, 10, 10}, {3, 10, 50}, {1, 1, 1, 100}, {5, 6, 7, 8, 9, 10, 11, 12}})
      for (const bool jitter : {false, true}) {
        Simulation s{.bound = bound, .times = times, .jitter = jitter};
        s.run(400);
        EXPECT_LE(s.most_updates, bound) << times.size() << " workers";
        EXPECT_LE(s.most_behind, bound) << times.size() << " workers";
      }
}

TEST(Staleness, lets_fast_workers_go_ahead_of_a_slow_one_by_the_bound_alone) {
  Simulation bounded{.bound = 4, .times = {10, 1000}}, free{.bound = std::nullopt, .times = {10, 1000}};
  bounded.run(100);
  free.run(100);
  EXPECT_EQ(bounded.most_updates, 4) << "it does use it";
  EXPECT_LE(bounded.steps[0] - bounded.steps[1], 6);
  EXPECT_GT(free.steps[0], 50 * free.steps[1]);
  EXPECT_GT(free.most_updates, 50) << "without a bound it is what it is";
}

TEST(Staleness, does_not_wait_for_a_worker_that_is_lost) {
  Staleness rule(1);
  for (const int w : {0, 1}) {
    rule.add_worker(w);
    rule.read(w);
  }
  rule.apply(0);
  rule.read(0);
  EXPECT_FALSE(rule.may_apply(0)) << "worker 1 would be two updates stale";
  rule.remove_worker(1);
  EXPECT_TRUE(rule.may_apply(0));
  rule.apply(0);
  EXPECT_TRUE(rule.may_read(0));
}

TEST(Staleness, of_one_update_of_several_gradients_is_that_of_none) {
  Staleness rule(std::nullopt);
  for (const int w : {3, 4, 5}) {
    rule.add_worker(w);
    rule.read(w);
  }
  EXPECT_EQ(rule.apply_together({3, 4, 4}).updates, 0);
  EXPECT_EQ(rule.version(), 1);
  rule.drop(5);
  EXPECT_EQ(rule.version(), 1) << "it made no update";
  EXPECT_EQ(rule.steps_of(5), 1);
}

TEST(Staleness, the_rate_is_divided_by_it_unless_it_is_to_be_whole) {
  const UpdateRule divided{.staleness = 4}, whole{.staleness = 4, .divides_rate = false}, synchronous{.staleness = 0};
  EXPECT_EQ(rate_factor(divided, {.updates = 0}), 1);
  EXPECT_EQ(rate_factor(divided, {.updates = 1}), 0.5);
  EXPECT_EQ(rate_factor(divided, {.updates = 3}), 0.25);
  EXPECT_EQ(rate_factor(whole, {.updates = 4}), 1);
  EXPECT_EQ(rate_factor(synchronous, {.updates = 4}), 1) << "backup workers' late gradients make no update of their own";
}

}  // namespace
}  // namespace gemel::parallel
