// The searches behind `partition`: over all cuts of a chain, that whose worst stage is best.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/pipeline/partition.h"

namespace gemel::parallel {

/// What units begin..end-1 cost as a piece.
class PieceCosts {
 public:
  /// @param problem  its lengths agree; it outlives this
  explicit PieceCosts(const PartitionProblem& problem);

  int units() const { return static_cast<int>(problem_.units.size()); }
  int stages() const { return problem_.shape.stages; }
  int pieces() const { return problem_.shape.pieces(); }
  double rate(int stage) const { return problem_.rates[static_cast<std::size_t>(stage)]; }
  std::int64_t limit(int stage) const { return problem_.memory_bytes[static_cast<std::size_t>(stage)]; }

  /// Of the reference device.
  double compute_s(int begin, int end) const { return compute_s_[static_cast<std::size_t>(end)] - compute_s_[static_cast<std::size_t>(begin)]; }
  /// On the piece's stage, with its messages.
  double seconds(int piece, int begin, int end) const;
  /// A stage holds most at one of these moments; its bytes then are those of its pieces together.
  int moments(int stage) const { return static_cast<int>(held_[static_cast<std::size_t>(stage)].size()); }
  std::int64_t bytes(int piece, int moment, int begin, int end) const;
  /// Parameters and the activations of one micro-batch.
  std::int64_t bytes_of_one(int begin, int end) const;

 private:
  const PartitionProblem& problem_;
  std::vector<double> compute_s_;                    // [unit] of all before it
  std::vector<std::int64_t> fixed_, activations_;    // [unit] bytes of all before it: held whatever the schedule, and a micro-batch
  std::vector<std::vector<std::vector<int>>> held_;  // [stage][moment][virtual stage]
};

/// What is least of the worst stage.
enum class Least {
  time,    // seconds, of the cuts that fit
  memory,  // bytes over the device's: a cut fits up to 1
};

struct FoundCut {
  std::vector<int> first;  // [piece]
  double worst;
  bool is_best;  // no other one's worst stage is better
};

/// @return nothing where no cut fits, or with more than one piece a stage none was found
std::optional<FoundCut> find_cut(const PieceCosts& costs, Least what);
/// No cut's slowest stage takes less.
double seconds_at_least(const PieceCosts& costs);

}  // namespace gemel::parallel
