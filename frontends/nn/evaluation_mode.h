// Evaluating: a module in evaluation mode for a while.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "frontends/nn/module.h"

namespace gemel::nn {

/// Evaluation mode for its lifetime; then each module is in the mode that it was in.
class Evaluating {
 public:
  explicit Evaluating(Module& module) {
    module.visit([this](const std::string&, Module& m) { modes_.emplace_back(&m, m.training()); });
    module.eval();
  }
  ~Evaluating() {
    for (const auto& [module, training] : modes_) {  // a parent before its children
      if (training)
        module->train();
      else
        module->eval();
    }
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace gemel::nn
