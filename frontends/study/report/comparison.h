// Two machines, drivers or versions side by side: the cases that two folders of results of one study share.
#pragma once
#include <filesystem>

#include "frontends/study/report/page.h"

namespace gemel::study {

/// For each case: both medians, their ratio with its interval, and a test, with p adjusted over all cases.
/// @throws UsageError where the folders share no case; DataError where one holds no results
Page comparison(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace gemel::study
