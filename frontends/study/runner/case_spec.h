// What the spec of a case says to the runner and to its command, and whether these take it, before anything runs.
#pragma once
#include <string>
#include <vector>

#include "frontends/study/runner/study_options.h"
#include "frontends/study/study.h"

namespace gemel::study {

/// The spec with the folder of the data sets in it. @param missing  why one of them cannot be read, where that is so
Json with_data(Json spec, const Study& study, const StudyOptions& options, std::string& missing);
/// What the case's command, or its launcher, runs: the spec without the keys that the runner takes.
Json spec_of_run(const Case& c);
/// The words behind the program's name that run a spec. @param given  it, or the file that has it
std::vector<std::string> run_words(const Json& spec, const std::string& given);

/// Asks the command of a case whether it takes its spec. @return the spec with every key
/// @throws UsageError where it does not, with the line of the key; DataError where a file is not there that would tell
Json check(const Case& c, const Study& study, const StudyOptions& options);
/// Refuses a study none of whose cases has its data. @throws DataError
void check_data(const Study& study, const StudyOptions& options);

}  // namespace gemel::study
