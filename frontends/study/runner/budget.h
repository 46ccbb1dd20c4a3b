// Budget: how many steps of each process, and how many processes of each case, fit into the time that a study has.
#pragma once
#include <vector>

#include "frontends/study/run_record.h"

namespace gemel::study {

/// The smallest share of a spec's steps, epochs and pictures that a process runs, and the fewest steps.
inline constexpr double kLeastScale = 0.2;
inline constexpr int kLeastSteps = 4;  // of training the first does not count

/// The spec with this share of its steps, or of its epochs and, below one epoch, of its pictures.
Json scaled(Json spec, double scale);

/// What one process of a case takes, as one that ended well shows it.
class CaseCost {
 public:
  /// @param spec  of the case, unscaled
  CaseCost(const Json& spec, const ProcessRecord& run);
  double seconds(double scale) const;
  /// Of later processes, which are spared so many seconds of what does not depend on the scale.
  CaseCost less(double spared_s) const;

 private:
  Json spec_;
  double fixed_s_ = 0;  // starting, building kernels, warming up
  double step_s_ = 0;
  double steps_ = 0;  // unscaled, where the spec does not count them
};

/// The largest scale, 1 at most and kLeastScale at least, by which so many blocks of these cases take no longer than `seconds`.
double scale_within(const std::vector<CaseCost>& cases, int blocks, double seconds);

/// How often each case runs, `blocks` times at most and once at least, so that all take no longer than `seconds`: the cheap ones as often as wanted, and of the
/// others each for about the same time. @param costs  seconds of a process of each case
std::vector<int> repeats_within(const std::vector<double>& costs, int blocks, double seconds);

/// By block, its rank in an order whose first few, however many, are spread over all blocks, the first block before all: a case that runs n times does so in
/// the blocks of ranks below n, and shares these with each case that runs at least as often.
std::vector<int> spread_ranks(int blocks);

}  // namespace gemel::study
