// The options that name a model, and models with the weights of a file, as eval and infer take them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/shape.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/module.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::cli {

/// Models that a command accepts: of pictures alone, or of texts and speech too, or of ratings as well.
enum class ModelKinds { pictures, all_but_ratings, all };
/// For the help of --model: "model: lenet, alexnet, ...".
std::string model_help(ModelKinds kinds = ModelKinds::pictures);
/// --model. @throws UsageError for a name that is not known
std::string model_name(const po::variables_map& values, ModelKinds kinds = ModelKinds::pictures);
/// The same of all kinds where --model names several, separated by commas.
std::vector<std::string> model_names(const po::variables_map& values);
/// --classes. @param least  1, or 0 where 0 leaves it to the data or the weights  @throws UsageError
std::int64_t class_count(const po::variables_map& values, std::int64_t least);

/// Adds --recompute, none unless told otherwise.
void add_recompute_option(po::options_description& options);
/// --recompute for this model. @throws UsageError where it is neither "none" nor "blocks", or the model has no repeated blocks
models::RecomputedParts recompute_option(const po::variables_map& values, const std::string& model);

/// --model, --weights, --classes
void add_loaded_model_options(po::options_description& options, ModelKinds kinds = ModelKinds::pictures);
/// A model of pictures without memory, in evaluation mode, of as many classes as --classes or the file of --weights says.
std::unique_ptr<nn::Module> model_of_weights(const po::variables_map& values, std::int64_t channels);
/// Says what was taken off the names of a weight file, where that is something.
void say_prefix(const nn::Loaded& loaded);

}  // namespace gemel::cli
