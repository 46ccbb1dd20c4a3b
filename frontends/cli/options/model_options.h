// The options that name a model.
#pragma once
#include <string>

#include "frontends/cli/options/arguments.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::cli {

/// Models that a command takes: all, or those that `gemel infer` can run.
enum class ModelKinds { all, of_infer };
/// Describes --model: "model: lenet, alexnet, ...".
std::string model_help(ModelKinds kinds = ModelKinds::all);

/// Adds --recompute, none unless told otherwise.
void add_recompute_option(po::options_description& options);
/// --recompute for --model. @throws UsageError where it is neither "none" nor "blocks", or the model has no repeated blocks
models::RecomputedParts recompute_option(const domains::RunOptions& options);

/// Adds --model, --weights and --classes.
void add_loaded_model_options(po::options_description& options, ModelKinds kinds = ModelKinds::all);
/// Tells what was taken off the names of a weight file, where that is something.
void say_prefix(const nn::Loaded& loaded);

}  // namespace gemel::cli
