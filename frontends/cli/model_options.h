// A model with the weights of a file, as eval and infer take it.
#pragma once
#include <memory>
#include <string>

#include "frontends/cli/arguments.h"
#include "frontends/nn/module.h"

namespace gemel::cli {

/// --model, --weights, --classes
void add_model_options(po::options_description& options);
/// @param data_classes  used where --classes is not given; 0: the weight file's
std::unique_ptr<nn::Module> load_model(const po::variables_map& values, Session& session, std::int64_t data_classes, std::int64_t channels);

}  // namespace gemel::cli
