// Blocks that several families of models share.
#pragma once
#include <cstdint>

#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"

namespace gemel::models {

/// Base of the blocks that a model is a sequence of.
class RepeatedBlock : public nn::Module {};

/// torchvision's Conv2dNormActivation: a convolution without bias, batch normalisation and an activation, padded to keep the size at stride 1.
template <class Act>
class ConvNorm : public nn::Sequential {
 public:
  ConvNorm(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1, std::int64_t groups = 1) {
    emplace<nn::Conv2d>(in, out, nn::square_kernel(kernel, stride, (kernel - 1) / 2, nn::Bias::no, groups));
    emplace<nn::BatchNorm2d>(out);
    emplace<Act>();
  }
};

}  // namespace gemel::models
