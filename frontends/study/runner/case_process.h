// One process of a case: how it is started, and what it leaves.
#pragma once
#include "frontends/study/run_record.h"
#include "frontends/study/runner/study_options.h"

namespace gemel::study {

/// The spec with the folder of the data sets in it. @param missing  why one of them cannot be read, where that is so
Json with_data(Json spec, const Study& study, const StudyOptions& options, std::string& missing);
/// What the case's command runs: its spec without the keys that the runner or a launcher takes.
Json spec_of_run(const Case& c);
/// Refuses a case whose spec its command does not take, before anything runs. @return the spec with every key  @throws UsageError
Json check(const Case& c, const StudyOptions& options);
/// Refuses a study none of whose cases has its data. @throws DataError
void check_data(const Study& study, const StudyOptions& options);

struct CaseRun {
  const Case& c;
  int repeat = 0;
  double timeout_s = 0;
};
/// Runs a case once. @throws Interrupted
ProcessRecord run_once(const CaseRun& what, const Study& study, const StudyOptions& options);

}  // namespace gemel::study
