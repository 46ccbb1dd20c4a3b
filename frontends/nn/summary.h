// What a module does to a shape, layer by layer: found by running it where shapes flow and nothing computes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/spec.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

struct LayerSummary {
  std::string path;                   // "" for the model itself
  std::string description;            // "Conv2d(3, 64, kernel 7, stride 2, padding 3, no bias)"
  Spec output;                        // of its last call, the first of several
  std::int64_t parameters = 0;        // its own elements, without its children's
  std::int64_t flops = 0, bytes = 0;  // of the operators that it applies itself, forward
  std::int64_t activation_bytes = 0;  // of their outputs
};

/// In the order in which the layers begin to run, the model first; layers that do not run are left out. Needs no memory: the
/// module may be materialised or not, and is left as it was.
/// @param inputs  what the model is called with; images are [N, H, W, C]
/// @throws ShapeError where a layer refuses what reaches it
std::vector<LayerSummary> summarise(Module& module, const Specs& inputs);

}  // namespace gemel::nn
