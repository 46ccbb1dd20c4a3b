// Tests the hypotheses of a study.
#pragma once
#include "frontends/study/report/results.h"

namespace gemel::study {

/// Everything but the verdict, which needs p adjusted over all hypotheses of the study.
Verdict tested(const Hypothesis& h, const Study& study, const Results& results);
/// Fills in verdict, claim_holds and sentence. @param hypotheses  of the study
void decide(const Hypothesis& h, std::size_t hypotheses, Verdict& v);

}  // namespace gemel::study
