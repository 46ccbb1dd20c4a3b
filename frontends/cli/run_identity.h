// What `gemel train` is told apart by from other runs.
#pragma once
#include "datasets/dataset.h"
#include "frontends/cli/train_options.h"
#include "frontends/train/run_identity.h"
#include "opencl/profile.h"

namespace gemel::cli {

/// Device, driver and build, and every option that the course of a run depends on.
train::RunIdentity identity_of(const TrainOptions& options, const datasets::Dataset& data, const opencl::DeviceProfile& profile);

}  // namespace gemel::cli
