// StateNames: runs a module on symbols in place of its parameters and buffers, so that they need no memory.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/base/spec.h"
#include "engine/core/value.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

/// Replaces the state of a module as long as it lives.
class StateNames {
 public:
  /// @param module  must outlive this object
  explicit StateNames(Module& module);
  ~StateNames();
  StateNames(const StateNames&) = delete;
  StateNames& operator=(const StateNames&) = delete;

  /// Specs of a capture's inputs: each parameter's tensor once, under the path of its owner, then all buffers.
  const Specs& specs() const { return specs_; }
  const std::vector<std::string>& paths() const { return paths_; }
  /// Number of parameters among them.
  std::size_t parameters() const { return parameters_.size(); }
  /// Tells if parameter `i` is trainable.
  bool is_trained(std::size_t i) const { return parameters_[i]->trainable; }
  /// Gives the module symbols, within the capture.
  /// @return its parameters, as leaves
  Values fill(std::span<const Value> names);

 private:
  std::vector<Parameter*> parameters_;
  std::vector<Buffer*> buffers_;
  std::vector<std::string> paths_;
  Specs specs_;
  Values before_;
};

}  // namespace gemel::nn
