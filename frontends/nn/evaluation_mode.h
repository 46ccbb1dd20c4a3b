// Evaluating: puts a module into evaluation mode for a scope.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "frontends/nn/module.h"

namespace gemel::nn {

/// Evaluation mode while it lives; then each module is in its mode from before.
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
