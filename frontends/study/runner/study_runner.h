// StudyRunner: runs the cases of a study, each in a process of its own, in blocks of all cases in random order, and records every process at once.
#pragma once

#include "frontends/study/runner/study_options.h"
#include "frontends/study/study.h"

namespace gemel::study {

/// Runs until each median of the first table is known as well as the study asks, all repeats are done, or the budget has ended.
/// @throws UsageError for a case that its command does not take, and where the folder holds results and `resume` is not asked for, or holds those of another
/// study; DataError where it cannot be written
void run_study(const Study& study, const StudyOptions& options);

}  // namespace gemel::study
