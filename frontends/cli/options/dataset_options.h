// The options that name data, those that domains define among them.
#pragma once
#include <cstdint>
#include <string>

#include "frontends/cli/options/arguments.h"
#include "frontends/domains/domain.h"

namespace gemel::cli {

/// Adds the options that domains define for commands of this use. @param most  OptionUse::model: --config alone
void add_domain_options(po::options_description& options, domains::OptionUse most);
/// Adds --dataset, --data, --limit, and the options of domains that name data.
void add_dataset_options(po::options_description& options);

/// Describes --input of commands whose data are made up.
const std::string& made_up_input_help();
/// Makes data up for the one shape of --input. @throws UsageError where it has several
domains::MadeUp made_up_once(const domains::RunOptions& options, std::int64_t samples);

}  // namespace gemel::cli
