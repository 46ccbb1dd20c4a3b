// Tests the hypotheses of a study.
#pragma once
#include "frontends/study/report/results.h"

namespace gemel::study {

/// Everything but the verdict, which needs p adjusted over all hypotheses of the study.
Verdict tested(const Hypothesis& h, const Study& study, const Results& results);
/// Fills in verdict, claim_holds, sentence and what could have been seen. @param tests  over which p is adjusted: those of all hypotheses that have one
void decide(const Hypothesis& h, std::size_t tests, Verdict& v);

}  // namespace gemel::study
