// What a study found, in sentences with numbers: the top of its report.
#pragma once
#include <string>

#include "frontends/study/report/results.h"

namespace gemel::study {

/// The first table in a sentence: between which values its metric lies, and which cases have these, for each value of its first factor where its rows have
/// several. Empty where it has fewer than two values.
std::string summary_of(const Study& study, const Results& results);
/// The statement, whether it holds here, and by which figures.
std::string answer_to(const Hypothesis& h, const Verdict& v, const Study& study, const Results& results);

}  // namespace gemel::study
