// Balance: shares of a batch by what each rank was seen to take for a sample, so that all are done at the same time.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace gemel::parallel {

/// Whole samples for each rank, so that the slowest is done as soon as it can be. A rank that would lengthen the step even with one gets none.
/// @param seconds  [rank] for one sample  @param least  what every rank gets; no more than there are
std::vector<std::int64_t> split_by_time(std::int64_t samples, std::span<const double> seconds, std::int64_t least);

/// What all ranks know alike, so that all decide alike.
class Balance {
 public:
  struct Limits {
    std::int64_t least = 0;     // samples that every rank needs
    std::int64_t of_trial = 1;  // that a rank without any gets to be measured again, so that one comes to it in each micro-batch
  };
  /// @param batch  samples of all ranks, which begin with even shares
  Balance(int ranks, std::int64_t batch, const Limits& limits);

  struct Seen {
    std::int64_t samples = 0;  // of a rank in a step; 0: none
    double seconds = 0;        // that it computed
  };
  /// Of a step in which some rank had samples.
  /// @return new shares, where they shorten steps by so much that it pays to change them; in samples of a whole batch
  std::optional<std::vector<std::int64_t>> saw(std::span<const Seen> all);

  const std::vector<std::int64_t>& shares() const { return shares_; }
  /// Seconds that a rank takes for a sample; 0 before it was seen.
  double seconds_per_sample(int rank) const { return known_[static_cast<std::size_t>(rank)].seconds; }

 private:
  struct Known {
    double seconds = 0;  // a sample: the median of the recent steps
    std::deque<Seen> recent{};
    std::set<std::int64_t> met{};  // numbers of samples that it had in a step
    int steps_without = 0;         // samples
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
