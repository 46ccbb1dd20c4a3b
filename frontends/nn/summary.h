// Summarises a module layer by layer, by running it on symbols without memory.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/spec.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

struct LayerSummary {
  std::string path;                   // "" for the model
  std::string description;            // such as "Conv2d(3, 64, kernel 7, stride 2, padding 3, no bias)"
  Spec output;                        // of its last call; the first of several outputs
  std::int64_t parameters = 0;        // elements of its own, without its children's
  std::int64_t flops = 0, bytes = 0;  // of the operators that it applies itself, forward
  std::int64_t activation_bytes = 0;  // bytes of their outputs
};

/// Returns the layers in the order in which they begin to run, the model first, without layers that do not run. Needs no memory: the module may be materialised
/// or not, and is not changed.
/// @param inputs  specs of the model's inputs; images are [N, H, W, C]
/// @throws ShapeError if a layer refuses its input
std::vector<LayerSummary> summarise(Module& module, const Specs& inputs);

}  // namespace gemel::nn
