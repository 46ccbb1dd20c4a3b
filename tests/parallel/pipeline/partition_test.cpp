// Cuts of a model into pieces, against every cut that there is.
#include "parallel/pipeline/partition.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/schedule_names.h"

namespace gemel::parallel {
namespace {

using testing::k1f1b;
using testing::kGpipe;
using testing::kInterleaved;
using testing::message_of;

constexpr std::int64_t kPlenty = std::numeric_limits<std::int64_t>::max();
constexpr double kNone = std::numeric_limits<double>::infinity();

/// Units of those times, forward a third of each, on equal devices with memory for all.
PartitionProblem chain(const PipelineShape& shape, const std::vector<double>& seconds) {
  PartitionProblem out{{}, shape, std::vector<double>(at(shape.stages), 1.0), std::vector<std::int64_t>(at(shape.stages), kPlenty)};
  for (const double s : seconds) out.units.push_back({s / 3, s - s / 3, 10, 1, 0});
  return out;
}

/// What a stage takes, added up unit by unit over the schedule.
struct Taken {
  double seconds = 0;
  std::int64_t bytes = 0;
};
std::vector<Taken> taken(const PartitionProblem& problem, const std::vector<int>& first) {
  const int stages = problem.shape.stages, pieces = problem.shape.pieces();
  std::vector<Taken> out(at(stages));
  std::vector<std::int64_t> activations(at(pieces), 0), parameters(at(stages), 0), recomputed(at(stages), 0);
  for (int piece = 0; piece < pieces; ++piece) {
    const int end = piece + 1 < pieces ? first[at(piece) + 1] : static_cast<int>(problem.units.size());
    const auto message_s = [&](int unit) {
      return 2 * (problem.latency_s + problem.seconds_per_byte * static_cast<double>(problem.units[at(unit)].boundary_bytes));
    };
    Taken& stage = out[at(piece % stages)];
    std::int64_t again = 0;
    for (int u = first[at(piece)]; u < end; ++u) {
      const double once = problem.units[at(u)].step_s / problem.shape.micro_batches;
      stage.seconds += (problem.units[at(u)].forward_s + problem.units[at(u)].backward_s + once) / problem.rates[at(piece % stages)];
      parameters[at(piece % stages)] += problem.parameter_copies * problem.units[at(u)].parameter_bytes + problem.units[at(u)].other_bytes;
      activations[at(piece)] += problem.units[at(u)].activation_bytes;
      again += problem.units[at(u)].recomputed_bytes;
    }
    recomputed[at(piece % stages)] = std::max(recomputed[at(piece % stages)], again);
    if (stages > 1 && piece > 0) stage.seconds += message_s(first[at(piece)] - 1);
    if (stages > 1 && piece + 1 < pieces) stage.seconds += message_s(end - 1);
  }
  const Schedule schedule = make_schedule(problem.shape);
  for (int s = 0; s < stages; ++s) {
    std::int64_t now = parameters[at(s)];
    for (const Action& a : schedule.actions[at(s)]) {
      if (a.kind == Action::Kind::forward) now += activations[at(a.piece)];
      if (a.kind == Action::Kind::backward) now -= activations[at(a.piece)];
      out[at(s)].bytes = std::max(out[at(s)].bytes, now);
    }
    out[at(s)].bytes += recomputed[at(s)];
  }
  return out;
}

void for_every_cut(int units, int pieces, const std::function<void(const std::vector<int>&)>& run) {
  std::vector<int> first{0};
  const std::function<void()> next = [&] {
    if (std::ssize(first) == pieces) return run(first);
    for (int u = first.back() + 1; u < units; ++u) {
      first.push_back(u);
      next();
      first.pop_back();
    }
  };
  next();
}

/// The slowest stage's time in the best cut that fits; infinite where none does.
double best_of_all(const PartitionProblem& problem) {
  double best = kNone;
  for_every_cut(static_cast<int>(problem.units.size()), problem.shape.pieces(), [&](const std::vector<int>& first) {
    double slowest = 0;
    const auto stages = taken(problem, first);
    for (std::size_t s = 0; s < stages.size(); ++s) slowest = stages[s].bytes > problem.memory_bytes[s] ? kNone : std::max(slowest, stages[s].seconds);
    best = std::min(best, slowest);
  });
  return best;
}

/// Whole numbers, rates that are powers of two: sums are exact in any order.
PartitionProblem drawn(const PipelineShape& shape, std::uint32_t number) {
  PhiloxStream stream(7, number);
  const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(stream.below(n)); };
  PartitionProblem out{{}, shape, {}, {}};
  const std::int64_t units = shape.pieces() + below(static_cast<std::uint32_t>(11 - shape.pieces()));
  std::int64_t bytes = 0;
  for (std::int64_t u = 0; u < units; ++u) {
    out.units.push_back({static_cast<double>(below(9)), static_cast<double>(below(17)), below(20), below(20), below(30)});
    out.units.back().other_bytes = below(5);
    out.units.back().recomputed_bytes = below(20);
    out.units.back().step_s = static_cast<double>(shape.micro_batches * below(4));
    bytes += 3 * out.units.back().parameter_bytes + 2 * out.units.back().activation_bytes;
  }
  // From far too little to more than enough.
  for (int s = 0; s < shape.stages; ++s) {
    out.rates.push_back(std::array{0.5, 1.0, 1.0, 4.0}[at(below(4))]);
    out.memory_bytes.push_back(1 + bytes * (1 + below(6)) / (2 * shape.stages));
  }
  out.parameter_copies = 3;
  out.seconds_per_byte = std::array{0.0, 0.125, 0.5}[at(below(3))];
  out.latency_s = static_cast<double>(below(3));
  return out;
}

const std::vector<PipelineShape>& drawn_shapes() {
  static const std::vector<PipelineShape> shapes{{k1f1b, 1, 1, 3},        {k1f1b, 2, 1, 4},        {kGpipe, 2, 1, 3},       {k1f1b, 3, 1, 2},
                                                 {kGpipe, 3, 1, 1},       {k1f1b, 4, 1, 8},        {k1f1b, 4, 1, 3},        {kInterleaved, 1, 2, 3},
                                                 {kInterleaved, 2, 2, 4}, {kInterleaved, 2, 3, 2}, {kInterleaved, 2, 4, 6}, {kInterleaved, 3, 2, 3},
                                                 {kInterleaved, 4, 2, 4}};
  return shapes;
}

TEST(PipelinePartition, is_the_best_of_all_cuts_or_none_fits) {
  std::uint32_t number = 0;
  int fitting = 0, refused = 0;
  for (const PipelineShape& shape : drawn_shapes())
    for (int repeat = 0; repeat < 60; ++repeat) {
      SCOPED_TRACE(fmt::format("{} of {} stages, {} virtual, {} micro-batches, number {}", to_string(shape.kind), shape.stages, shape.virtual_stages,
                               shape.micro_batches, number));
      const PartitionProblem problem = drawn(shape, number++);
      const double best = best_of_all(problem);
      if (best == kNone) {
        ++refused;
        EXPECT_THROW(partition(problem), MemoryError);
        continue;
      }
      ++fitting;
      const Partition cut = partition(problem);
      EXPECT_EQ(cut.slowest_s, best);
      EXPECT_EQ(cut.at_least_s, best);
      const auto stages = taken(problem, cut.first);
      for (std::size_t s = 0; s < stages.size(); ++s) {
        EXPECT_EQ(cut.stage_s[s], stages[s].seconds);
        EXPECT_EQ(cut.stage_bytes[s], stages[s].bytes);
        EXPECT_LE(cut.stage_bytes[s], problem.memory_bytes[s]);
      }
    }
  EXPECT_GT(fitting, 200);
  EXPECT_GT(refused, 100);
}

TEST(PipelinePartition, the_number_of_stages_that_would_do_is_the_smallest_of_which_a_cut_fits) {
  std::uint32_t number = 10'000;
  int found = 0, none = 0;
  for (const PipelineShape& shape : drawn_shapes())
    for (int repeat = 0; repeat < 8; ++repeat) {
      SCOPED_TRACE(fmt::format("{} of {} stages, {} virtual, {} micro-batches, number {}", to_string(shape.kind), shape.stages, shape.virtual_stages,
                               shape.micro_batches, number));
      PartitionProblem problem = drawn(shape, number++);
      for (std::int64_t& bytes : problem.memory_bytes) bytes = bytes / 2 + 1;
      std::optional<int> expected;
      for (int stages = 1; stages * shape.virtual_stages <= std::ssize(problem.units) && !expected; ++stages) {
        if (shape.kind == kInterleaved && shape.micro_batches % stages != 0) continue;
        PartitionProblem other = problem;
        other.shape.stages = stages;
        other.rates.assign(at(stages), 1);
        other.memory_bytes.resize(at(stages), std::ranges::min(problem.memory_bytes));
        if (best_of_all(other) < kNone) expected = stages;
      }
      ++(expected ? found : none);
      EXPECT_EQ(stages_that_would_do(problem), expected);
    }
  EXPECT_GT(found, 20);
  EXPECT_GT(none, 20);
}

TEST(PipelinePartition, devices_get_as_much_as_they_can_do) {
  PartitionProblem problem = chain({k1f1b, 2, 1, 4}, {1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(partition(problem).first, (std::vector<int>{0, 4}));
  problem.rates = {1, 3};
  EXPECT_EQ(partition(problem).first, (std::vector<int>{0, 2}));
  problem.rates = {3, 1};
  EXPECT_EQ(partition(problem).first, (std::vector<int>{0, 6}));
}

TEST(PipelinePartition, a_cut_avoids_a_boundary_that_costs_more_than_balance_gains) {
  PartitionProblem problem = chain({k1f1b, 2, 1, 4}, {1, 1, 1, 1});
  problem.units[1].boundary_bytes = 100;  // a skip connection crosses it
  problem.seconds_per_byte = 0.001;
  EXPECT_EQ(partition(problem).first, (std::vector<int>{0, 2}));
  problem.seconds_per_byte = 0.01;
  const Partition cut = partition(problem);
  EXPECT_NE(cut.first[1], 2);
  EXPECT_EQ(cut.slowest_s, 3);
}

TEST(PipelinePartition, a_stage_that_holds_more_micro_batches_gets_fewer_units) {
  PartitionProblem problem = chain({k1f1b, 2, 1, 4}, {1, 1, 1, 1, 1, 1});
  for (PipelineUnit& unit : problem.units) unit = {1, 2, 0, 10, 0};
  problem.memory_bytes = {40, 40};  // two micro-batches on the first stage, one on the second
  const Partition cut = partition(problem);
  EXPECT_EQ(cut.first, (std::vector<int>{0, 2}));
  EXPECT_EQ(cut.stage_bytes, (std::vector<std::int64_t>{40, 40}));
  problem.shape.kind = kGpipe;  // four on each
  EXPECT_EQ(message_of<MemoryError>([&] { partition(problem); }),
            "pipeline: stage 0 needs 120 bytes in the cut that comes nearest, and its device has 40; accepted: a cut by cost into 6 stages");
}

TEST(PipelinePartition, one_stage_takes_all_and_sends_nothing) {
  PartitionProblem problem = chain({kInterleaved, 1, 2, 2}, {3, 6, 9});
  for (PipelineUnit& unit : problem.units) unit.boundary_bytes = 1000;
  problem.seconds_per_byte = problem.latency_s = 1;
  EXPECT_EQ(partition(problem).slowest_s, 18);
}

TEST(PipelinePartition, a_large_search_says_how_near_it_came) {
  // Equal units are the hardest: so many cuts are equal.
  const PartitionProblem problem = chain({kInterleaved, 4, 4, 8}, std::vector<double>(70, 3.0));
  const Partition cut = partition(problem);
  EXPECT_EQ(cut.at_least_s, 70 * 3.0 / 4);
  EXPECT_LE(cut.slowest_s, 18 * 3.0);  // in whole units
}

TEST(PipelinePartition, more_pieces_than_units_are_refused) {
  EXPECT_EQ(message_of<UsageError>([] {
              partition(chain({k1f1b, 4, 1, 4}, {1, 1, 1}));
            }),
            "pipeline: 4 stages for a model that can be cut into 3 parts; accepted: at most 3 stages");
  EXPECT_EQ(message_of<UsageError>([] {
              partition(chain({kInterleaved, 3, 2, 3}, {1, 1, 1, 1, 1}));
            }),
            "pipeline: 3 stages of 2 pieces each for a model that can be cut into 5 parts; accepted: at most 2 stages");
}

TEST(PipelinePartition, shapes_that_no_schedule_has_are_refused) {
  PartitionProblem problem = chain({kInterleaved, 2, 2, 4}, {1, 1, 1, 1});
  problem.shape.micro_batches = 3;
  const char* const expected = "pipeline: 3 micro-batches over 2 stages with interleaved; accepted: a multiple of 2";
  EXPECT_EQ(message_of<UsageError>([&] { partition(problem); }), expected);
  EXPECT_EQ(message_of<UsageError>([&] { stages_that_would_do(problem); }), expected);
  problem.shape.stages = -1;
  EXPECT_EQ(message_of<UsageError>([&] { partition(problem); }), "pipeline: -1 stages; accepted: 1 or more");
}

TEST(PipelinePartition, the_refusal_of_one_device_says_how_many_would_do) {
  PartitionProblem problem = chain({k1f1b, 1, 1, 1}, {1, 1, 1, 1});
  problem.memory_bytes = {50};  // a unit takes two copies of 10 bytes, and 1 of activation
  EXPECT_EQ(message_of<MemoryError>([&] { partition(problem); }),
            "pipeline: stage 0 needs 84 bytes in the cut that comes nearest, and its device has 50; accepted: a cut by cost into 2 stages");
  problem.memory_bytes = {20};
  EXPECT_EQ(
      message_of<MemoryError>([&] { partition(problem); }),
      "pipeline: stage 0 needs 84 bytes in the cut that comes nearest, and its device has 20; accepted: smaller micro-batches or more memory, as no number "
      "of stages would do");
}

TEST(PipelinePartition, the_stage_that_lacks_most_is_named) {
  PartitionProblem problem = chain({k1f1b, 2, 1, 1}, {1, 1, 1});
  problem.units[2].parameter_bytes = 100;
  problem.memory_bytes = {1000, 150};
  EXPECT_EQ(message_of<MemoryError>([&] { partition(problem); }),
            "pipeline: stage 1 needs 201 bytes in the cut that comes nearest, and its device has 150; accepted: a cut by cost into 1 stage");
}

TEST(PipelinePartition, devices_without_number_rate_or_memory_are_refused) {
  const auto refused = [](const std::function<void(PartitionProblem&)>& change) {
    PartitionProblem problem = chain({k1f1b, 2, 1, 4}, {1, 1});
    change(problem);
    return message_of<InternalError>([&] { partition(problem); });
  };
  EXPECT_EQ(refused([](auto& p) { p.rates.pop_back(); }), "pipeline: rates of 1 devices and memory of 2 for 2 stages");
  EXPECT_EQ(refused([](auto& p) { p.memory_bytes.push_back(1); }), "pipeline: rates of 2 devices and memory of 3 for 2 stages");
  EXPECT_EQ(refused([](auto& p) { p.rates[1] = 0; }), "pipeline: a device without rate or memory");
  EXPECT_EQ(refused([](auto& p) { p.memory_bytes[0] = 0; }), "pipeline: a device without rate or memory");
}

}  // namespace
}  // namespace gemel::parallel
