// What the runs of a study say: estimates for its tables and plots, and verdicts on its hypotheses.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/study/run_record.h"
#include "frontends/study/statistics/averages.h"

namespace gemel::study {

/// Processes below which there is no interval and no p.
inline constexpr int kLeastProcesses = 6;

/// A metric of a case over its processes.
struct Estimate {
  int n = 0;
  double median = 0;
  Interval interval;  // 95 %; the range below kLeastProcesses
  bool is_range = false;
  std::string gap;               // why there is none: "does-not-fit", "missing", "not measured", "not run"; empty: there is one
  std::string reason;            // of the gap
  const char* unit = "process";  // of n
};
inline constexpr const char* kNotMeasured = "not measured";

/// Four digits, or all of a number of up to 7: "12.34", "10513".
std::string four_digits(double value);
/// "execution graph, model lenet"
std::string described(const Selection& selection);
/// The unit in which people read a metric, such as MiB for bytes. Records and CSV have the metric as it is.
struct DisplayUnit {
  std::string label;  // "peak_bytes in MiB"; the metric alone where it is read as it is
  double size = 1;
};
DisplayUnit display_unit(const std::string& metric);
/// "12.3 (12.1 to 12.6)" in units of this size, or the gap; "12.3" where the interval has no width.
std::string text_of(const Estimate& estimate, double unit = 1);

struct Verdict {
  std::string name, claim, source, method, metric;
  int n = 0;                                                                          // blocks, processes or, of a correlation, cases
  std::optional<double> statistic, p, p_adjusted, p_equal, p_equal_adjusted, effect;  // p_equal: of that the difference is not within the margin
  std::optional<Interval> interval;
  std::optional<Interval> margin_interval;  // of the ratio that the margin is about: of a variance, of the largest level over the least
  std::optional<double> deviation;          // of a ratio: the standard deviation of its logarithms in the blocks
  // What the deciding test finds in 80 % of such studies: a ratio less 1, or a correlation; none of a trend or a variance.
  std::optional<double> could_have_seen;
  std::optional<int> enough_blocks;  // where sign flips of n blocks can find nothing: those that can
  std::string lack;                  // where there is no effect: what was measured, and what it needs
  std::string effect_is = "ratio";
  std::string verdict;      // "differs", "equal within 5 %", "correlates", "undecided"
  std::string claim_holds;  // "it holds", "it does not hold", "open, nothing is decided"
  std::string sentence;     // what was found, and how sure it is
};

class Results {
 public:
  Results(const Study& study, std::vector<ProcessRecord> runs);

  const std::vector<ProcessRecord>& runs() const { return runs_; }
  /// The processes of a case that ended well.
  std::vector<const ProcessRecord*> runs_of(const Case& c) const;
  Estimate estimate(const Case& c, const std::string& metric) const;
  /// The metric of a over that of b, in each block that has both: their geometric mean, with an interval by Student's t of the logarithms.
  Estimate ratio(const Case& a, const Case& b, const std::string& metric) const;
  /// Values of one metric of a case, by block.
  std::map<int, double> values(const Case& c, const std::string& metric) const;
  /// The same without the blocks, in their order.
  std::vector<double> sample(const Case& c, const std::string& metric) const;
  /// Hypotheses in the order of the file, with p adjusted over all of them.
  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  /// Processes that did not end well.
  std::vector<const ProcessRecord*> failures() const;
  /// By case of a peer that was compared with Gemel: what Agreement found, in the order of the study.
  std::vector<std::pair<std::string, Json>> agreements() const;
  /// Whether every case of Gemel's is ok, does not fit or is missing.
  bool is_whole() const;
  /// results.json.
  Json json() const;

 private:
  Estimate found(const Case& c, const std::string& metric) const;
  /// Fills in p values, adjusted as one family over all verdicts that have them.
  void adjust();
  const Study& study_;
  std::vector<ProcessRecord> runs_;
  std::map<std::string, std::vector<const ProcessRecord*>> by_case_;
  std::vector<Verdict> verdicts_;
  mutable std::map<std::pair<std::string, std::string>, Estimate> estimates_;  // by case and metric: a bootstrap takes its time, and reports ask again
};

}  // namespace gemel::study
