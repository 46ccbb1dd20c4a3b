// What `gemel infer` runs a model on: the model of a weight file, its inputs, and what is printed of its outputs.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "frontends/cli/commands/infer_inputs.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/nn/module.h"

namespace gemel::cli {

/// What is known before there is a device.
struct InferOrder {
  std::unique_ptr<InferInputs> inputs;
  std::unique_ptr<nn::Module> model;  // without memory
  bool takes_types = true;            // behind tokens
  bool tells_finite = false;          // the outputs are chosen tokens, and a second one says of each sample whether its logits were finite
  /// Prints what the outputs for these inputs say; null: nothing.
  std::function<void(const Values& outputs, std::int64_t begin, std::int64_t count)> tell = {};
};

/// @param model  its name  @throws UsageError, DataError
InferOrder infer_order(const po::variables_map& v, const std::string& model);

}  // namespace gemel::cli
