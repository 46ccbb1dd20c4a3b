// InferRequest: inputs for `gemel infer`, the model that takes them, and what is printed of its outputs.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "frontends/domains/infer_inputs.h"
#include "frontends/nn/module.h"

namespace gemel::domains {

/// All that is known before there is a device.
struct InferRequest {
  std::unique_ptr<InferInputs> inputs;
  std::unique_ptr<nn::Module> model;  // without memory
  bool takes_types = true;            // behind tokens
  bool tells_finite = false;          // the outputs are chosen tokens, and a second one says of each sample whether its logits were finite
  /// Prints what the outputs for these inputs say; null: nothing.
  std::function<void(const Values& outputs, std::int64_t begin, std::int64_t count)> tell = {};
};

}  // namespace gemel::domains
