// Layers without parameters.
#pragma once
#include <string>

#include "engine/ops/ops.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

/// An operator of one tensor as a layer.
class Activation : public Module {
 public:
  std::string describe() const override { return kind_; }

 protected:
  Activation(const char* kind, Value (*function)(Value)) : kind_(kind), function_(function) {}
  Value forward(Value x) override { return function_(std::move(x)); }

 private:
  const char* kind_;
  Value (*function_)(Value);
};
struct ReLU : Activation {
  ReLU() : Activation("ReLU", relu) {}
};
struct ReLU6 : Activation {
  ReLU6() : Activation("ReLU6", relu6) {}
};
struct SiLU : Activation {
  SiLU() : Activation("SiLU", silu) {}
};
struct Hardswish : Activation {
  Hardswish() : Activation("Hardswish", hard_swish) {}
};
struct Sigmoid : Activation {
  Sigmoid() : Activation("Sigmoid", sigmoid) {}
};
struct Tanh : Activation {
  Tanh() : Activation("Tanh", tanh) {}
};
struct GELU : Activation {
  GELU() : Activation("GELU", gelu) {}
};
struct Identity : Activation {
  Identity() : Activation("Identity", [](Value x) { return x; }) {}
};

/// Returns a square window; without a stride it is the kernel's size.
Window square_window(std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0);

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(const Window& window) : window_(window) {}
  std::string describe() const override;

 protected:
  Value forward(Value x) override { return max_pool2d(std::move(x), window_); }

 private:
  Window window_;
};

class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(const Window& window) : window_(window) {}
  std::string describe() const override;

 protected:
  Value forward(Value x) override { return avg_pool2d(std::move(x), window_); }

 private:
  Window window_;
};

class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(const Pair& extents) : extents_(extents) {}
  std::string describe() const override;

 protected:
  Value forward(Value x) override { return adaptive_avg_pool2d(std::move(x), extents_); }

 private:
  Pair extents_;
};

/// Zeroes a share `rate` of its input in training. Draws are keyed by the module's path.
class Dropout : public Module {
 public:
  /// @throws UsageError for a rate outside 0..1
  explicit Dropout(double rate = 0.5);
  std::string describe() const override;
  double rate() const { return rate_; }

 protected:
  Value forward(Value x) override;

 private:
  double rate_;
};

/// Flattens [N, ...] to [N, features]; images [N, H, W, C] in torchvision's order C, H, W, so that weights of the next Linear need no permutation.
class Flatten : public Module {
 public:
  std::string describe() const override { return "Flatten"; }

 protected:
  Value forward(Value x) override;
};

}  // namespace gemel::nn
