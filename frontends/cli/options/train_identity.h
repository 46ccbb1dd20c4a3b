// What `gemel train` is told apart by from other runs.
#pragma once
#include <string>

#include "frontends/cli/options/train_options.h"
#include "frontends/domains/workload.h"
#include "frontends/train/checkpoint/run_identity.h"

namespace gemel::cli {

/// Model, data, optimizer, and what else the course of a run depends on besides the trainer's own options.
/// @param ranks  of the job
train::RunIdentity identity_of(const TrainOptions& options, const domains::Workload& work, int ranks);

/// A hash of two samples: data sets of one name and size that are not the same mostly differ in one of them.
std::string first_and_last(const datasets::Dataset& data);

}  // namespace gemel::cli
