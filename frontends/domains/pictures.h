// Options of the data sets of pictures.
#pragma once
#include "datasets/pictures/picture_dataset.h"
#include "frontends/domains/run_options.h"

namespace gemel::domains {

/// Reads --dataset, --data, --input, --normalize, --classes, --limit and --seed; --model where the command has it. @throws UsageError
datasets::PictureDatasetOptions picture_data(const RunOptions& options);

}  // namespace gemel::domains
