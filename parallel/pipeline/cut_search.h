// Searches for `partition`: find, over all cuts of a chain, the one whose worst stage is best.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/pipeline/partition.h"

namespace gemel::parallel {

/// Costs of a piece that has the units begin..end-1.
class PieceCosts {
 public:
  /// @param problem  with lists of matching lengths; must outlive this object
  explicit PieceCosts(const PartitionProblem& problem);

  int units() const { return static_cast<int>(problem_.units.size()); }
  int stages() const { return problem_.shape.stages; }
  int pieces() const { return problem_.shape.pieces(); }
  double rate(int stage) const { return problem_.rates[static_cast<std::size_t>(stage)]; }
  std::int64_t limit(int stage) const { return problem_.memory_bytes[static_cast<std::size_t>(stage)]; }

  /// Seconds of the units' computation on the reference device.
  double compute_s(int begin, int end) const { return compute_s_[static_cast<std::size_t>(end)] - compute_s_[static_cast<std::size_t>(begin)]; }
  /// Seconds of a piece on its stage, with its messages.
  double seconds(int piece, int begin, int end) const;
  /// Number of moments of a stage at which it may hold most memory. The stage's memory at a moment is the sum of its pieces'.
  int moments(int stage) const { return static_cast<int>(held_[static_cast<std::size_t>(stage)].size()); }
  std::int64_t bytes(int piece, int moment, int begin, int end) const;
  /// Bytes that a backward pass recomputes, besides: of a stage's pieces one at a time.
  std::int64_t recomputed_bytes(int begin, int end) const { return recomputed_[static_cast<std::size_t>(end)] - recomputed_[static_cast<std::size_t>(begin)]; }
  /// Bytes of the parameters, of the activations of one micro-batch, and of what is recomputed.
  std::int64_t bytes_of_one(int begin, int end) const;

 private:
  const PartitionProblem& problem_;
  std::vector<double> compute_s_;                               // [unit] sum over all units before it
  std::vector<std::int64_t> fixed_, activations_, recomputed_;  // [unit] bytes of all units before it: fixed, for each micro-batch, and recomputed
  std::vector<std::vector<std::vector<int>>> held_;             // [stage][moment][virtual stage]
};

/// The quantity of the worst stage that is minimised.
enum class Least {
  time,    // seconds, over cuts that fit
  memory,  // bytes over the device's bytes: a cut fits up to 1
};

struct FoundCut {
  std::vector<int> first;  // [piece] its first unit
  double worst;
  bool is_best;  // proved optimal
};

/// @return nothing if no cut fits, or with several pieces a stage if none was found
std::optional<FoundCut> find_cut(const PieceCosts& costs, Least what);
/// Returns a lower bound of the slowest stage's time over all cuts.
double seconds_at_least(const PieceCosts& costs);

}  // namespace gemel::parallel
