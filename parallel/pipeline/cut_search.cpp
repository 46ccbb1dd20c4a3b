#include "parallel/pipeline/cut_search.h"

#include <algorithm>
#include <limits>

#include "engine/base/numbers.h"

namespace gemel::parallel {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

/// best[s][u]: the worst stage of the best cut of the first u units into the first s stages.
std::optional<FoundCut> dynamic_program(const PieceCosts& costs, Least what) {
  const int units = costs.units(), stages = costs.stages();
  std::vector best(at(stages) + 1, std::vector<double>(at(units) + 1, kNone));
  std::vector from(at(stages) + 1, std::vector<int>(at(units) + 1, 0));
  best[0][0] = 0;
  for (int s = 0; s < stages; ++s)
    for (int end = s + 1; end <= units - (stages - s - 1); ++end) {
      double& least = best[at(s) + 1][at(end)];
      for (int begin = end - 1; begin >= s; --begin) {
        const std::int64_t bytes = costs.bytes(s, 0, begin, end) + costs.recomputed_bytes(begin, end);
        const double share = static_cast<double>(bytes) / static_cast<double>(costs.limit(s));
        if (what == Least::time && bytes > costs.limit(s)) break;
        // What grows with the piece, whatever crosses its boundaries, ends the search when it is too much.
        if ((what == Least::time ? costs.compute_s(begin, end) / costs.rate(s) : share) >= least) break;
        const double worst = std::max(best[at(s)][at(begin)], what == Least::time ? costs.seconds(s, begin, end) : share);
        if (worst < least) {
          least = worst;
          from[at(s) + 1][at(end)] = begin;
        }
      }
    }
  if (best.back().back() == kNone) return std::nullopt;
  FoundCut out{std::vector<int>(at(stages)), best.back().back(), true};
  for (int s = stages, end = units; s > 0; --s) end = out.first[at(s) - 1] = from[at(s)][at(end)];
  return out;
}

/// Places piece after piece, the most balanced ends first, and turns back where no better cut than the best so far can come of it.
class BranchAndBound {
 public:
  BranchAndBound(const PieceCosts& costs, Least what)
      : costs_(costs), what_(what), enough_(what == Least::time ? seconds_at_least(costs) : 1), first_(at(costs.pieces())), stages_(at(costs.stages())) {
    for (int s = 0; s < costs.stages(); ++s) stages_[at(s)].bytes.resize(at(costs.moments(s)), 0);
  }

  std::optional<FoundCut> run() {
    place(0, 0);
    if (best_.worst == kNone) return std::nullopt;
    best_.is_best = tries_ <= kTries;
    return best_;
  }

 private:
  static constexpr int kTries = 4'000'000;  // a quarter of a second or so
  struct Stage {
    double seconds = 0;
    std::vector<std::int64_t> bytes;  // [moment]
    std::int64_t recomputed = 0;      // of the largest piece
    std::int64_t peak() const { return std::ranges::max(bytes) + recomputed; }
  };

  void place(int piece, int begin) {
    if (piece == costs_.pieces()) {
      best_.first = first_;
      best_.worst = 0;
      for (int s = 0; s < costs_.stages(); ++s) best_.worst = std::max(best_.worst, worth(s));
      return;
    }
    first_[at(piece)] = begin;
    const bool last = piece + 1 == costs_.pieces();
    const int low = last ? costs_.units() : begin + 1, high = costs_.units() - (costs_.pieces() - piece - 1);
    const int middle = std::clamp(balanced_end(piece, begin), low, high);
    for (int step = 0; step <= 2 * std::max(middle - low, high - middle); ++step) {
      const int end = step % 2 == 0 ? middle + step / 2 : middle - (step + 1) / 2;
      if (end < low || end > high) continue;
      if (best_.worst <= enough_ || ++tries_ > kTries) return;
      try_end(piece, begin, end);
    }
  }

  void try_end(int piece, int begin, int end) {
    const int s = piece % costs_.stages();
    Stage& stage = stages_[at(s)];
    const double before = stage.seconds;
    const std::int64_t recomputed_before = stage.recomputed;
    stage.seconds += costs_.seconds(piece, begin, end);
    stage.recomputed = std::max(stage.recomputed, costs_.recomputed_bytes(begin, end));
    for (std::size_t m = 0; m < stage.bytes.size(); ++m) stage.bytes[m] += costs_.bytes(piece, static_cast<int>(m), begin, end);
    const bool fits = what_ == Least::memory || stage.peak() <= costs_.limit(s);
    if (fits && worth(s) < best_.worst && has_room(piece + 1, end)) place(piece + 1, end);
    stage.seconds = before;
    stage.recomputed = recomputed_before;
    for (std::size_t m = 0; m < stage.bytes.size(); ++m) stage.bytes[m] -= costs_.bytes(piece, static_cast<int>(m), begin, end);
  }

  double worth(int s) const {
    const Stage& stage = stages_[at(s)];
    return what_ == Least::time ? stage.seconds : static_cast<double>(stage.peak()) / static_cast<double>(costs_.limit(s));
  }

  /// Whether the stages of the pieces left can take the units left and stay below the best so far.
  bool has_room(int piece, int begin) const {
    if (what_ == Least::memory || piece == costs_.pieces()) return true;
    double room = 0;
    for (int s = std::max(0, piece - (costs_.pieces() - costs_.stages())); s < costs_.stages(); ++s)
      room += costs_.rate(s) * (best_.worst - stages_[at(s)].seconds);
    return costs_.compute_s(begin, costs_.units()) < room;
  }

  /// Where the piece takes its stage's part of what is left.
  int balanced_end(int piece, int begin) const {
    const auto amount = [&](int from, int to) {
      return what_ == Least::time ? costs_.compute_s(from, to) : static_cast<double>(costs_.bytes_of_one(from, to));
    };
    const auto weight = [&](int p) { return what_ == Least::time ? costs_.rate(p % costs_.stages()) : static_cast<double>(costs_.limit(p % costs_.stages())); };
    double weights = 0;
    for (int p = piece; p < costs_.pieces(); ++p) weights += weight(p);
    const double part = amount(begin, costs_.units()) * (weight(piece) / weights);
    int low = begin, high = costs_.units();
    while (low < high) {
      const int middle = (low + high) / 2;
      if (amount(begin, middle) < part)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  const PieceCosts& costs_;
  Least what_;
  double enough_;  // what ends the search
  std::vector<int> first_;
  std::vector<Stage> stages_;
  FoundCut best_{{}, kNone, false};
  int tries_ = 0;
};

}  // namespace

PieceCosts::PieceCosts(const PartitionProblem& problem) : problem_(problem), compute_s_{0}, fixed_{0}, activations_{0}, recomputed_{0} {
  for (const PipelineUnit& unit : problem.units) {
    compute_s_.push_back(compute_s_.back() + unit.forward_s + unit.backward_s + unit.step_s / problem.shape.micro_batches);
    fixed_.push_back(fixed_.back() + problem.parameter_copies * unit.parameter_bytes + unit.other_bytes);
    activations_.push_back(activations_.back() + unit.activation_bytes);
    recomputed_.push_back(recomputed_.back() + unit.recomputed_bytes);
  }
  const Schedule schedule = make_schedule(problem.shape);
  for (int s = 0; s < schedule.stages; ++s) held_.push_back(held_at_most(schedule, s));
}

double PieceCosts::seconds(int piece, int begin, int end) const {
  double out = compute_s(begin, end) / rate(piece % stages());
  if (stages() == 1) return out;
  for (const int boundary : {begin, end})
    if (boundary > 0 && boundary < units())
      out += 2 * (static_cast<double>(problem_.units[at(boundary) - 1].boundary_bytes) * problem_.seconds_per_byte + problem_.latency_s);
  return out;
}

std::int64_t PieceCosts::bytes(int piece, int moment, int begin, int end) const {
  const int held = held_[at(piece % stages())][at(moment)][at(piece / stages())];
  return fixed_[at(end)] - fixed_[at(begin)] + held * (activations_[at(end)] - activations_[at(begin)]);
}

std::int64_t PieceCosts::bytes_of_one(int begin, int end) const {
  return fixed_[at(end)] - fixed_[at(begin)] + activations_[at(end)] - activations_[at(begin)] + recomputed_bytes(begin, end);
}

std::optional<FoundCut> find_cut(const PieceCosts& costs, Least what) {
  return costs.pieces() == costs.stages() ? dynamic_program(costs, what) : BranchAndBound(costs, what).run();
}

double seconds_at_least(const PieceCosts& costs) {
  double rates = 0, fastest = 0, longest = 0;
  for (int s = 0; s < costs.stages(); ++s) {
    rates += costs.rate(s);
    fastest = std::max(fastest, costs.rate(s));
  }
  for (int u = 0; u < costs.units(); ++u) longest = std::max(longest, costs.compute_s(u, u + 1));
  return std::max(costs.compute_s(0, costs.units()) / rates, longest / fastest);
}

}  // namespace gemel::parallel
