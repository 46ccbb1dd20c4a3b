// Modules that contain modules.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "frontends/nn/module.h"

namespace gemel::nn {

/// Children "0", "1", ..., which the owner of the list calls.
class ModuleList : public Module {
 public:
  std::string describe() const override { return "ModuleList"; }
  std::size_t size() const { return children().size(); }
  Module& operator[](std::size_t i) { return *children().at(i); }
  template <class M>
  M& append(std::unique_ptr<M> child) {
    return adopt(std::to_string(size()), std::move(child));
  }
  template <class M, class... Arguments>
  M& emplace(Arguments&&... arguments) {
    return append(std::make_unique<M>(std::forward<Arguments>(arguments)...));
  }
};

/// Calls its children in order, each on the output of the one before.
class Sequential : public ModuleList {
 public:
  std::string describe() const override { return "Sequential"; }

 protected:
  Values forward_values(Values x) override {
    for (const auto& child : children()) x = (*child)(std::move(x));
    return x;
  }
};

/// Children by name, which the owner of the dictionary calls.
class ModuleDict : public Module {
 public:
  std::string describe() const override { return "ModuleDict"; }
  template <class M>
  M& insert(std::string name, std::unique_ptr<M> child) {
    return adopt(std::move(name), std::move(child));
  }
  /// @throws UsageError for an unknown name
  Module& operator[](std::string_view name);
};

}  // namespace gemel::nn
