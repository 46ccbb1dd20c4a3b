// Modules of which only the input is kept for the backward pass.
#include "engine/recompute.h"

#include "engine/base/error.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

/// What the forward pass of a tree depends on besides its input.
struct Module::Circumstances {
  Values parameters, buffers;
  std::vector<bool> trainable, training;

  static Circumstances of(const Module& module) {
    Circumstances c;
    module.visit([&c](const std::string&, const Module& m) {
      c.training.push_back(m.training_);
      for (const auto& p : m.parameters_) {
        c.parameters.push_back(p->tensor());
        c.trainable.push_back(p->trainable);
      }
      for (const auto& b : m.buffers_) c.buffers.push_back(b->tensor());
    });
    return c;
  }
  void restore(Module& module) const {
    std::size_t m_index = 0, p_index = 0, b_index = 0;
    module.visit([&](const std::string&, Module& m) {
      m.training_ = training[m_index++];
      for (const auto& p : m.parameters_) {
        p->trainable = trainable[p_index];
        p->value = parameters[p_index++];
      }
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

Value Module::forward_twice(Value x) {
  Circumstances now = Circumstances::of(*this);
  const Values state = std::move(now.buffers);
  Values inputs = std::move(now.parameters);
  inputs.push_back(std::move(x));
  const auto run = [weak = std::weak_ptr<Module*>(itself_), now = std::move(now), kind = describe()](const Values& in, const Values& buffers) -> Values {
    const auto alive = weak.lock();
    if (!alive) throw UsageError(kind + ": it is gone before the backward pass that computes it again; accepted: a module that lives until then");
    Module& module = **alive;
    Circumstances then = now;
    then.parameters.assign(in.begin(), in.end() - 1);
    then.buffers = buffers;
    const Under as_then(module, then);
    Value y = module.forward(in.back());
    if (!module.take_auxiliary().empty())
      throw UsageError(kind + ": it has auxiliary outputs, which cannot be computed again with the main one; accepted: the modules within it");
    return {std::move(y)};
  };
  return recomputed(run, inputs, state)[0];
}

}  // namespace gemel::nn
