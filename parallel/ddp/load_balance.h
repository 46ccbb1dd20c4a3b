// Load balancing: divides a batch in proportion to the measured speed of each rank, so that all finish at the same time.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace gemel::parallel {

/// Divides samples so that the slowest rank finishes as early as possible. A rank that would lengthen the step even with one sample gets none beyond `least`.
/// @param seconds  [rank] for one sample  @param least  samples of every rank; their sum is at most `samples`
std::vector<std::int64_t> split_by_time(std::int64_t samples, std::span<const double> seconds, std::int64_t least);

/// Chooses the shares of a batch from measured times. All ranks have the same measurements, so all decide alike.
class LoadBalancer {
 public:
  struct Limits {
    std::int64_t least = 0;     // samples that every rank needs
    std::int64_t of_trial = 1;  // samples that a rank without any gets to be measured again: one for each micro-batch
  };
  /// Begins with even shares.
  /// @param batch  samples of all ranks
  LoadBalancer(int ranks, std::int64_t batch, const Limits& limits);

  struct Seen {
    std::int64_t samples = 0;  // of a rank in a step; 0: none
    double seconds = 0;        // of its computation
  };
  /// Takes the measurements of a step in which some rank had samples.
  /// @return new shares of a full batch, if they shorten steps by enough to be worth a change
  std::optional<std::vector<std::int64_t>> saw(std::span<const Seen> all);

  const std::vector<std::int64_t>& shares() const { return shares_; }
  /// Seconds of a rank for one sample; 0 before it was measured.
  double seconds_per_sample(int rank) const { return known_[static_cast<std::size_t>(rank)].seconds; }

 private:
  struct Known {
    double seconds = 0;  // for one sample: median of recent steps
    std::deque<Seen> recent{};
    std::set<std::int64_t> met{};  // numbers of samples that occurred in a step; the first step of each is not counted
    int steps_without = 0;         // steps without samples
  };
  static void learn(Known& known, const Seen& seen, std::int64_t share);
  std::vector<std::int64_t> best() const;
  double step_seconds(const std::vector<std::int64_t>& shares) const;

  std::int64_t batch_;
  Limits limits_;
  std::vector<Known> known_;
  std::vector<std::int64_t> shares_;
};

}  // namespace gemel::parallel
