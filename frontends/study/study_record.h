// study.json in a folder of results: the study that they are of, as it was when it ran.
#pragma once
#include <filesystem>
#include <optional>

#include "frontends/study/study.h"

namespace gemel::study {

inline constexpr const char* kStudyRecord = "study.json";
inline constexpr const char* kStudyText = "study";        // its key of Study::text
inline constexpr const char* kUnofficial = "unofficial";  // its key of Study::unofficial

/// @throws DataError where the folder holds no results
Study recorded_study(const std::filesystem::path& folder);

/// The share of the study's steps that its processes run, once it is decided.
std::optional<double> recorded_scale(const std::filesystem::path& folder);
void record_scale(const std::filesystem::path& folder, double scale);
/// Has a later text of the study, of the same cases, take the place of the one that the study began with.
void record_text(const std::filesystem::path& folder, const std::string& text);

/// What a folder of results says of the study's hypotheses.
struct FoundResults {
  std::filesystem::path folder;
  std::string name;  // of the study
  Json tests;        // of results.json; null: no report was written yet
};
/// @throws DataError where the folder is not there, or its study.json is no record of a study
FoundResults results_of(const std::filesystem::path& folder);
/// The folder itself where it has a study's results, or is none; else those in it that have some.
std::vector<std::filesystem::path> folders_of_results(const std::filesystem::path& folder);
/// results_of each of these. @throws DataError as results_of
std::vector<FoundResults> results_in(const std::filesystem::path& folder);

}  // namespace gemel::study
