// Modules that the backward pass recomputes from their inputs.
#include "engine/gradients/recompute.h"

#include "engine/base/error.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

/// What the forward pass of a tree depends on besides its inputs.
struct Module::Circumstances {
  Values parameters, buffers;  // tensors of the tree's owners
  std::vector<bool> trainable;
  std::vector<Mode> modes;

  static Circumstances of(const Module& module) {
    Circumstances c;
    for (const Parameter* p : module.owners()) {
      c.parameters.push_back(p->tensor());
      c.trainable.push_back(p->trainable);
    }
    module.visit([&c](const std::string&, const Module& m) {
      c.modes.push_back(m.mode_);
      for (const auto& b : m.buffers_) c.buffers.push_back(b->tensor());
    });
    return c;
  }
  void restore(Module& module) const {
    std::size_t m_index = 0, p_index = 0, b_index = 0;
    for (Parameter* p : module.owners()) {
      p->trainable = trainable[p_index];
      p->value = parameters[p_index++];
    }
    module.visit([&](const std::string&, Module& m) {
      m.mode_ = modes[m_index++];
      for (const auto& b : m.buffers_) b->value = buffers[b_index++];
    });
  }
};

/// Puts circumstances in force for its lifetime.
class Module::Under {
 public:
  Under(Module& module, const Circumstances& circumstances) : module_(module), before_(Circumstances::of(module)) { circumstances.restore(module); }
  ~Under() { before_.restore(module_); }
  Under(const Under&) = delete;
  Under& operator=(const Under&) = delete;

 private:
  Module& module_;
  Circumstances before_;
};

Values Module::forward_twice(Values x) {
  Circumstances now = Circumstances::of(*this);
  const Values state = std::move(now.buffers);
  Values inputs = std::move(now.parameters);
  const std::size_t parameters = inputs.size();
  std::vector<bool> given;
  for (Value& v : x) {
    given.push_back(static_cast<bool>(v));
    if (v) inputs.push_back(std::move(v));
  }
  const auto run = [weak = std::weak_ptr<Module*>(itself_), now = std::move(now), given, parameters, kind = describe()](const Values& in,
                                                                                                                        const Values& buffers) -> Values {
    const auto alive = weak.lock();
    if (!alive) throw UsageError(kind + ": it is gone before the backward pass that computes it again; accepted: a module that lives until then");
    Module& module = **alive;
    Circumstances then = now;
    auto next = in.begin() + static_cast<std::ptrdiff_t>(parameters);
    then.parameters.assign(in.begin(), next);
    then.buffers = buffers;
    Values again(given.size());
    for (std::size_t i = 0; i < given.size(); ++i)
      if (given[i]) again[i] = *next++;
    const Under as_then(module, then);
    Values y = module.forward_values(std::move(again));
    if (!module.take_auxiliary().empty())
      throw UsageError(kind + ": it has auxiliary outputs, which cannot be computed again with the main one; accepted: the modules within it");
    return y;
  };
  return recomputed(run, inputs, state);
}

}  // namespace gemel::nn
