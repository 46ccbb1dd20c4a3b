// Progress: what is known of a study's cases so far: which go on, what a process of each takes, and whether that is enough.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/study/runner/budget.h"

namespace gemel::study {

class Progress {
 public:
  /// @param scale  of the steps of the runs that count; gaps count at any
  Progress(const Study& study, const std::vector<ProcessRecord>& before, double scale);
  void add(const ProcessRecord& run);

  double scale() const { return scale_; }
  std::int64_t order() const { return order_; }
  /// Whether the case has no gap, and is yet to run in this block.
  bool goes_on(const Case& c, int block) const;
  bool is_gap(const Case& c) const;
  /// Seconds of a process, as it took when the case ran last, without kernels that only its first one had to build; else as the mean of the others did.
  double seconds(const Case& c) const;
  /// Of all cases that go on, or of those of Gemel alone.
  double seconds_of_block(bool of_gemel_alone = false) const;
  /// Of the cases that ended well.
  std::vector<CaseCost> costs() const;
  /// By case: in how many of the blocks it is to run, those in which it did included, if all is to end within `seconds`.
  std::map<std::string, int> repeats_within(int blocks, double seconds) const;
  /// Whether the median of every case is known as well as the study asks.
  bool is_enough() const;

 private:
  struct Known {
    std::set<int> blocks;  // in which it ran
    double seconds = 0;
    std::optional<double> first_step_s;  // of its first process, of Gemel
    bool is_gap = false;
    std::optional<CaseCost> cost;
    std::vector<double> values;
  };
  /// Seconds that the case's only process took because it was the first: its first step over the shortest first step of all, which found its kernels built.
  double one_off_s(const Known& known) const;
  const Study& study_;
  double scale_;
  std::string metric_;  // by whose intervals it is decided whether more blocks are needed
  std::map<std::string, Known> known_;
  std::optional<double> least_first_step_s_;  // of Gemel's processes
  std::int64_t order_ = 0;
};

}  // namespace gemel::study
