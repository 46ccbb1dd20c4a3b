// A model whose outputs a test chooses, for tasks that are computed from them.
#pragma once
#include <utility>

#include "frontends/nn/module.h"

namespace gemel::testing {

/// Gives what it was made with, whoever asks.
class FixedOutputs : public nn::Module {
 public:
  explicit FixedOutputs(Values outputs) : outputs_(std::move(outputs)) {}

 protected:
  Values forward_values(Values) override { return outputs_; }

 private:
  Values outputs_;
};

}  // namespace gemel::testing
