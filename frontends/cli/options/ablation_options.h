// The options by which studies leave parts of the engine out, or fix what it chooses. --lstm, which is of models, is texts' own (frontends/domains).
#pragma once
#include <string>

#include "frontends/cli/options/run_spec.h"
#include "opencl/device/device.h"

namespace gemel::cli {

/// Adds --variant, --tuning, --memory-plan and --recorded-launches.
void add_ablation_options(po::options_description& options);
/// @throws UsageError naming the operator or the variant that is unknown, with what is accepted; or an option that the front end has no use for
opencl::Ablation ablation_options(const po::variables_map& values);

/// What a study's options add to the name of a case: "/variant:matmul=native/memory-plan:off"; empty where all are as by default.
std::string ablation_suffix(const Json& spec);

}  // namespace gemel::cli
