// The options that choose an optimizer, of commands that train.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontends/cli/options/arguments.h"
#include "frontends/cli/options/run_spec.h"
#include "frontends/optim/optimizer.h"

namespace gemel::cli {

struct OptimizerOptions {
  std::string name;
  optim::Settings settings;  // as given
  double rate = 0;

  /// @param groups  none: one that moves nothing, and can be asked what it keeps for each parameter
  std::unique_ptr<optim::Optimizer> make(std::vector<optim::Group> groups = {}) const { return optim::make(name, std::move(groups), settings); }
};

/// --optimizer, --lr, --weight-decay, --momentum. @param rate  of --lr where it is not given
void add_optimizer_options(po::options_description& options, const std::string& optimizer, double rate);
/// @throws UsageError
OptimizerOptions optimizer_options(const po::variables_map& values);
/// A spec with the optimizer's own decay and momentum where none are given.
Json resolved(Json spec, const OptimizerOptions& optimizer);

}  // namespace gemel::cli
