#include "frontends/nn/summary.h"

#include <map>
#include <memory>

#include "engine/core/op.h"
#include "engine/core/session.h"

namespace gemel::nn {
namespace {

using Layers = std::vector<LayerSummary>;

/// Counts what is applied for the layer now on top, and computes nothing.
class CountingTrace : public Trace {
 public:
  explicit CountingTrace(Layers& layers) : layers_(layers) {}
  void enter(std::size_t layer) { running_.push_back(layer); }
  void leave() { running_.pop_back(); }
  std::size_t current() const { return running_.back(); }

  void run(const OpDef& op, const Attributes& attributes, Values& inputs, Values& outputs) override {
    if (running_.empty()) return;
    const Specs in = specs_of(inputs), out = specs_of(outputs);
    LayerSummary& layer = layers_[running_.back()];
    for (const Spec& s : out) layer.activation_bytes += s.bytes();
    if (!op.cost) return;
    const Cost cost = op.cost({op, attributes, in, out});
    layer.flops += cost.flops;
    layer.bytes += cost.bytes;
  }

 private:
  static Specs specs_of(const Values& values) {
    Specs specs;
    for (const Value& v : values) specs.push_back(v.spec());
    return specs;
  }
  Layers& layers_;
  std::vector<std::size_t> running_;
};

/// Hooks that tell the trace which layer runs, for its lifetime.
class LayerHooks {
 public:
  LayerHooks(Module& module, Layers& layers, CountingTrace& trace) {
    module.visit([&](const std::string& path, Module& m) {
      std::int64_t own = 0;
      for (const auto& p : m.own_parameters()) own += p->spec.elements();
      const auto enter = [&layers, &trace, path, own](Module& running, Values&) {
        std::size_t index = 0;
        while (index < layers.size() && layers[index].path != path) ++index;
        if (index == layers.size()) layers.push_back({path, running.describe(), {}, own});
        trace.enter(index);
      };
      const auto leave = [&layers, &trace](Module&, const Values&, Values& y) {
        layers[trace.current()].output = y[0].spec();
        trace.leave();
      };
      hooks_.emplace_back(&m, m.add_forward_pre_hook(enter));
      hooks_.emplace_back(&m, m.add_forward_hook(leave));
    });
  }
  ~LayerHooks() {
    for (const auto& [module, id] : hooks_) module->remove_hook(id);
  }
  LayerHooks(const LayerHooks&) = delete;
  LayerHooks& operator=(const LayerHooks&) = delete;

 private:
  std::vector<std::pair<Module*, Module::HookId>> hooks_;
};

/// Names in place of what has no memory yet, for its lifetime.
class Declared {
 public:
  Declared(Module& module, Session& session) : module_(module) { module.declare(session); }
  ~Declared() { module_.undeclare(); }
  Declared(const Declared&) = delete;
  Declared& operator=(const Declared&) = delete;

 private:
  Module& module_;
};

}  // namespace

std::vector<LayerSummary> summarise(Module& module, const Specs& inputs) {
  const std::unique_ptr<Session> session = Session::reference();
  const Declared names(module, *session);
  Layers layers;
  CountingTrace trace(layers);
  const LayerHooks hooks(module, layers, trace);
  const TraceScope counting(*session, trace);
  const GradientMode forward_only(*session, GradientMode::Mode::off);
  Values x;
  for (const Spec& s : inputs) x.emplace_back(s, std::make_shared<Storage>(*session, s.elements()));
  module(std::move(x));
  return layers;
}

}  // namespace gemel::nn
