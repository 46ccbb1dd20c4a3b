// A network of two linear layers, small enough to look at every parameter.
#pragma once
#include <utility>

#include "engine/ops/ops.h"
#include "frontends/nn/layers/layers.h"

namespace gemel::testing {

/// [N, 3] -> [N, 2] by way of four rectified numbers.
struct TwoLayers : nn::Module {
  nn::Linear& first = add<nn::Linear>("first", 3, 4);
  nn::Linear& second = add<nn::Linear>("second", 4, 2);
  Value forward(Value x) override { return second(relu(first(std::move(x)))); }
};

}  // namespace gemel::testing
