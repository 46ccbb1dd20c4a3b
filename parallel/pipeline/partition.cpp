#include "parallel/pipeline/partition.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/pipeline/cut_search.h"

namespace gemel::parallel {
namespace {

void check_devices(const PartitionProblem& problem) {
  validate(problem.shape);
  const int stages = problem.shape.stages;
  if (problem.rates.size() != at(stages) || problem.memory_bytes.size() != at(stages))
    throw InternalError(fmt::format("pipeline: rates of {} devices and memory of {} for {} stages", problem.rates.size(), problem.memory_bytes.size(), stages));
  if (std::ranges::any_of(problem.rates, [](double r) { return !(r > 0); }) || std::ranges::any_of(problem.memory_bytes, [](std::int64_t b) { return b < 1; }))
    throw InternalError("pipeline: a device without rate or memory");
}

void check_pieces(const PartitionProblem& problem) {
  if (at(problem.shape.pieces()) <= problem.units.size()) return;
  const int stages = problem.shape.stages, each = problem.shape.virtual_stages;
  const std::size_t parts = problem.units.size(), most = parts / at(each);
  throw UsageError(fmt::format("pipeline: {} stages{} for a model that can be cut into {} parts; accepted: {}", stages,
                               each == 1 ? "" : fmt::format(" of {} pieces each", each), parts,
                               most > 0 ? fmt::format("at most {} stages", most) : fmt::format("at most {} pieces", parts)));
}

Partition measured(const PieceCosts& costs, const std::vector<int>& first) {
  Partition out{first, std::vector<double>(at(costs.stages()), 0), std::vector<std::int64_t>(at(costs.stages()), 0)};
  const auto end = [&](int piece) { return piece + 1 < costs.pieces() ? first[at(piece) + 1] : costs.units(); };
  for (int s = 0; s < costs.stages(); ++s) {
    std::int64_t recomputed = 0;  // by one piece at a time
    for (int piece = s; piece < costs.pieces(); piece += costs.stages()) {
      out.stage_s[at(s)] += costs.seconds(piece, first[at(piece)], end(piece));
      recomputed = std::max(recomputed, costs.recomputed_bytes(first[at(piece)], end(piece)));
    }
    for (int moment = 0; moment < costs.moments(s); ++moment) {
      std::int64_t bytes = recomputed;
      for (int piece = s; piece < costs.pieces(); piece += costs.stages()) bytes += costs.bytes(piece, moment, first[at(piece)], end(piece));
      out.stage_bytes[at(s)] = std::max(out.stage_bytes[at(s)], bytes);
    }
  }
  out.slowest_s = std::ranges::max(out.stage_s);
  out.at_least_s = seconds_at_least(costs);
  return out;
}

/// Names the stage that lacks most in the cut that comes nearest.
[[noreturn]] void refuse_memory(const PartitionProblem& problem, const Partition& cut) {
  const auto share = [&](std::size_t s) { return static_cast<double>(cut.stage_bytes[s]) / static_cast<double>(problem.memory_bytes[s]); };
  std::size_t worst = 0;
  for (std::size_t s = 1; s < cut.stage_bytes.size(); ++s)
    if (share(s) > share(worst)) worst = s;
  const std::optional<int> enough = stages_that_would_do(problem);
  throw MemoryError(fmt::format("pipeline: stage {} needs {} bytes in the cut that comes nearest, and its device has {}; accepted: {}", worst,
                                cut.stage_bytes[worst], problem.memory_bytes[worst],
                                enough ? fmt::format("a cut by cost into {} stage{}", *enough, *enough == 1 ? "" : "s")
                                       : "smaller micro-batches or more memory, as no number of stages would do"));
}

}  // namespace

Partition partition(const PartitionProblem& problem) {
  check_devices(problem);
  check_pieces(problem);
  const PieceCosts costs(problem);
  if (const auto fastest = find_cut(costs, Least::time)) {
    Partition out = measured(costs, fastest->first);
    if (fastest->is_best) out.at_least_s = out.slowest_s;
    return out;
  }
  const Partition nearest = measured(costs, find_cut(costs, Least::memory)->first);
  for (std::size_t s = 0; s < nearest.stage_bytes.size(); ++s)
    if (nearest.stage_bytes[s] > problem.memory_bytes[s]) refuse_memory(problem, nearest);
  return nearest;
}

std::optional<int> stages_that_would_do(const PartitionProblem& problem, int least) {
  check_devices(problem);
  PartitionProblem tried = problem;
  const std::int64_t smallest = std::ranges::min(problem.memory_bytes);
  const int most = static_cast<int>(problem.units.size()) / problem.shape.virtual_stages;
  for (int stages = least; stages <= most; ++stages) {
    if (problem.shape.kind == ScheduleKind::interleaved && problem.shape.micro_batches % stages != 0) continue;
    tried.shape.stages = stages;
    tried.rates.assign(at(stages), 1);
    tried.memory_bytes = problem.memory_bytes;
    tried.memory_bytes.resize(at(stages), smallest);
    if (find_cut(PieceCosts(tried), Least::memory)->worst <= 1) return stages;
  }
  return std::nullopt;
}

}  // namespace gemel::parallel
