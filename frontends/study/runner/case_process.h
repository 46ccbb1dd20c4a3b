// One process of a case: how it is started, and what it leaves.
#pragma once
#include "frontends/study/run_record.h"
#include "frontends/study/runner/study_options.h"

namespace gemel::study {

struct CaseRun {
  const Case& c;
  int repeat = 0;
  double timeout_s = 0;
};
/// Runs a case once. @throws Interrupted
ProcessRecord run_once(const CaseRun& what, const Study& study, const StudyOptions& options);

}  // namespace gemel::study
