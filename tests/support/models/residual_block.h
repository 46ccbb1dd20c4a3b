// A layer with all that makes cutting and computing again hard.
#pragma once
#include <cstdint>
#include <utility>

#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"

namespace gemel::testing {

/// y = relu(dropout(bn(conv(x))) + x): draws, state that moves, and a connection that skips three layers.
class ResidualBlock : public nn::Module {
 public:
  explicit ResidualBlock(std::int64_t channels)
      : conv_(add<nn::Conv2d>("conv", channels, channels, nn::square_kernel(3, 1, 1))),
        bn_(add<nn::BatchNorm2d>("bn", channels)),
        dropout_(add<nn::Dropout>("dropout", 0.3)) {}

 protected:
  Value forward(Value x) override {
    Value y = dropout_(bn_(conv_(x)));
    return relu(std::move(y) + std::move(x));
  }

 private:
  nn::Conv2d& conv_;
  nn::BatchNorm2d& bn_;
  nn::Dropout& dropout_;
};

}  // namespace gemel::testing
