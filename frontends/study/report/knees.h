// The knees of a study's curves, as a grid of a page and in results.json.
#pragma once
#include <string>
#include <vector>

#include "frontends/study/report/page.h"
#include "frontends/study/report/results.h"
#include "frontends/study/statistics/knee.h"

namespace gemel::study {

/// Of the cases that are alike but for the knee's factor.
struct FoundKnee {
  std::vector<std::string> line;  // values of the factors that tell the lines apart
  double largest = 0;             // size that was measured
  int n = 0;                      // processes of the case that has the fewest
  KneeEstimate estimate;          // without an interval below kLeastProcesses
  std::string gap;                // why there is none; empty: there is one
  /// "16 (8 to 16)", "above 64 (no other)", or the gap.
  std::string text() const;
};
std::vector<FoundKnee> knees_of(const Knee& knee, const Study& study, const Results& results);

/// What the knee is, and each line's.
Grid grid_of(const Knee& knee, const std::vector<FoundKnee>& found);
/// For results.json; "knee" is null where the cost still falls at the largest size.
Json json_of(const Knee& knee, const std::vector<FoundKnee>& found);

}  // namespace gemel::study
