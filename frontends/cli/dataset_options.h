// The options that name a data set, for train and eval.
#pragma once
#include <cstdint>

#include "datasets/dataset.h"
#include "frontends/cli/arguments.h"

namespace gemel::cli {

void add_dataset_options(po::options_description& options);
/// Reads --classes and --model too, which the commands describe. @throws UsageError
datasets::DatasetOptions dataset_options(const po::variables_map& values, std::uint64_t seed);

}  // namespace gemel::cli
