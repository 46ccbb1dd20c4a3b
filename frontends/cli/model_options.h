// The options that name a model, and models with the weights of a file, as eval and infer take them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/shape.h"
#include "engine/session.h"
#include "frontends/cli/arguments.h"
#include "frontends/models/models.h"
#include "frontends/nn/module.h"

namespace gemel::cli {

/// For the help of --model: "model: lenet, alexnet, ...".
std::string model_help();
/// --model. @throws UsageError for a name that is not known
std::string model_name(const po::variables_map& values);
/// The same where --model names several, separated by commas.
std::vector<std::string> model_names(const po::variables_map& values);
/// --input as [C, H, W]; where it is empty, what the model is usually given. @throws UsageError
Shape input_of(const po::variables_map& values, const std::string& model);
/// The same where --input takes one or several, separated by commas.
std::vector<Shape> inputs_of(const po::variables_map& values, const std::string& model);
/// --classes. @param least  1, or 0 where 0 leaves it to the data or the weights  @throws UsageError
std::int64_t class_count(const po::variables_map& values, std::int64_t least);

/// Adds --recompute, none unless told otherwise.
void add_recompute_option(po::options_description& options);
/// --recompute for this model. @throws UsageError where it is neither "none" nor "blocks", or the model has no repeated blocks
models::RecomputedParts recompute_option(const po::variables_map& values, const std::string& model);

/// --model, --weights, --classes
void add_loaded_model_options(po::options_description& options);
/// The model without memory, in evaluation mode.
/// @param data_classes  used where --classes is not given; 0: the weight file's
std::unique_ptr<nn::Module> model_of_weights(const po::variables_map& values, std::int64_t data_classes, std::int64_t channels);
/// The same with the file's weights. @throws DataError naming every key of the file that does not fit
std::unique_ptr<nn::Module> load_model(const po::variables_map& values, Session& session, std::int64_t data_classes, std::int64_t channels);

}  // namespace gemel::cli
