#include "frontends/nn/state/symbolic_state.h"

#include "engine/base/numbers.h"

namespace gemel::nn {

StateNames::StateNames(Module& module) {
  std::vector<std::string> buffer_paths;
  module.visit([&](const std::string& path, Module& m) {
    for (const auto& p : m.own_parameters()) {
      if (p->tied_to) continue;
      parameters_.push_back(p.get());
      paths_.push_back(join_path(path, p->name));
    }
    for (const auto& b : m.own_buffers()) {
      buffers_.push_back(b.get());
      buffer_paths.push_back(join_path(path, b->name));
    }
  });
  paths_.insert(paths_.end(), buffer_paths.begin(), buffer_paths.end());
  for (const Parameter* p : parameters_) {
    specs_.push_back(p->spec);
    before_.push_back(p->value);
  }
  for (const Buffer* b : buffers_) {
    specs_.push_back(b->spec);
    before_.push_back(b->value);
  }
}

StateNames::~StateNames() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i]->value = before_[i];
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i]->value = before_[parameters_.size() + i];
}

Values StateNames::fill(std::span<const Value> names) {
  Values leaves;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i]->bind(names[i]);
    leaves.push_back(parameters_[i]->value);
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i]->value = names[parameters_.size() + i];
  return leaves;
}

}  // namespace gemel::nn
