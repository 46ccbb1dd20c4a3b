// StateNames: a module traced over names in place of its parameters and buffers, so that no memory is needed for them.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/base/spec.h"
#include "engine/core/value.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

/// What a module has comes back when this ends.
class StateNames {
 public:
  /// @param module  outlives this
  explicit StateNames(Module& module);
  ~StateNames();
  StateNames(const StateNames&) = delete;
  StateNames& operator=(const StateNames&) = delete;

  /// Inputs for a capture: the tensors of all parameters, each once, under the path of the one that holds it, then all buffers.
  const Specs& specs() const { return specs_; }
  const std::vector<std::string>& paths() const { return paths_; }
  /// How many of them are parameters.
  std::size_t parameters() const { return parameters_.size(); }
  /// Whether parameter `i` is trained, and not frozen.
  bool is_trained(std::size_t i) const { return parameters_[i]->trainable; }
  /// Gives the module these names, within the capture. @return its parameters, as leaves
  Values fill(std::span<const Value> names);

 private:
  std::vector<Parameter*> parameters_;
  std::vector<Buffer*> buffers_;
  std::vector<std::string> paths_;
  Specs specs_;
  Values before_;
};

}  // namespace gemel::nn
