#include "engine/autograd.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "engine/ops/ops.h"
#include "engine/session.h"

namespace gemel {

Backward::Backward(std::shared_ptr<Node> node, Values gradients, std::vector<bool> wants, Session& session,
                   bool differentiable)
    : node_(std::move(node)), gradients_(std::move(gradients)), wants_(std::move(wants)), session_(session),
      differentiable_(differentiable) {}

const Value& Backward::gradient(int o) const {
  if (!has_gradient(o)) throw InternalError(node_->op->name + ": no gradient arrived for output " + std::to_string(o));
  return gradients_[at(o)];
}

Value Backward::fresh(const Node::Saved& saved, const char* what, int i) const {
  const auto who = [&] { return node_->op->name + ": " + what + " " + std::to_string(i); };
  if (!saved.value) throw InternalError(who() + " was not kept; declare it in gradient_reads");
  const std::uint64_t now = version_of(saved.value);
  if (now != saved.version)
    throw UsageError(who() + " is needed for the gradient but was changed in place after it was saved (version " +
                     std::to_string(now) + ", saved at " + std::to_string(saved.version) +
                     "); accepted: change a copy, or run backward first");
  return saved.value;
}

Value Backward::input(int i) const {
  Value v = fresh(node_->inputs[at(i)], "input", i);
  return differentiable_ ? v : v.detached();
}

Value Backward::output(int i) const {
  Value v = fresh(node_->outputs[at(i)], "output", i);
  return differentiable_ ? v.with_node(node_, i) : v.detached();
}

namespace {

struct Visit {
  std::shared_ptr<Node> node;
  Values gradients;
  std::vector<bool> hooked;
  bool needed = false;
};
using Visits = std::map<std::uint64_t, Visit, std::greater<>>;  // latest node first

Visits reach(const Values& outputs) {
  Visits visits;
  std::vector<std::shared_ptr<Node>> open;
  for (const Value& v : outputs)
    if (v.node()) open.push_back(v.node());
  while (!open.empty()) {
    auto node = std::move(open.back());
    open.pop_back();
    auto [it, is_new] = visits.try_emplace(node->order);
    if (!is_new) continue;
    if (node->released)
      throw UsageError(node->op->name + ": its history was released by an earlier backward pass; accepted: retain it in that pass");
    const std::size_t outs = node->op ? node->outputs.size() : 1;
    it->second.gradients.resize(outs);
    it->second.hooked.resize(outs);
    for (const auto& s : node->inputs)
      if (s.value.node()) open.push_back(s.value.node());
    it->second.node = std::move(node);
  }
  return visits;
}

/// Hooks see a gradient once, when all its contributions have arrived.
void complete(Visit& visit, std::size_t output) {
  if (visit.hooked[output] || !visit.gradients[output]) return;
  visit.hooked[output] = true;
  const auto hooks = visit.node->hooks;  // a hook may remove itself
  for (const auto& [o, hook] : hooks)
    if (at(o) == output) {
      Value replaced = (*hook)(visit.gradients[output]);
      if (replaced) visit.gradients[output] = std::move(replaced);
    }
}

/// The gradients asked for: how many edges still owe a contribution, and what to do when none does.
class Targets {
 public:
  Targets(const Values& inputs, const Values& seeds, const GradientReady& ready) : results(inputs.size()), ready_(ready) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].node()) throw UsageError("gradient: input " + std::to_string(i) + " does not want a gradient");
      targets_[key(inputs[i])].indices.push_back(i);
    }
    for (const Value& s : seeds) taken_.insert(s.storage().get());
  }
  bool any_of(std::uint64_t order) const {
    const auto it = targets_.lower_bound({order, 0});
    return it != targets_.end() && it->first.first == order;
  }
  void owe(const Value& edge) {
    if (auto it = targets_.find(key(edge)); it != targets_.end()) ++it->second.pending;
  }
  void paid(const Value& edge, Visits& visits) {
    auto it = targets_.find(key(edge));
    if (it != targets_.end() && --it->second.pending == 0) settle(it->first, it->second, visits);
  }
  void settle_unowed(Visits& visits) {
    for (auto& [key, target] : targets_)
      if (target.pending == 0) settle(key, target, visits);
  }

  Values results;

 private:
  using Key = std::pair<std::uint64_t, int>;
  struct Target {
    std::vector<std::size_t> indices;
    int pending = 0;
  };
  static Key key(const Value& v) { return {v.node()->order, v.output()}; }
  void settle(const Key& key, const Target& target, Visits& visits) {
    const auto visit = visits.find(key.first);
    if (visit == visits.end()) return;
    complete(visit->second, at(key.second));
    for (std::size_t i : target.indices) {
      Value g = visit->second.gradients[at(key.second)];
      if (!g) continue;
      // Two results never share a storage, nor one with a seed: each may be written in place.
      if (!taken_.insert(g.storage().get()).second) g = copy(g);
      taken_.insert(g.storage().get());
      results[i] = std::move(g);
      if (ready_) ready_(i, results[i]);
    }
  }
  std::map<Key, Target> targets_;
  std::set<const Storage*> taken_;
  const GradientReady& ready_;
};

void accumulate(Value& sum, Value more) { sum = sum ? add(std::move(sum), std::move(more)) : std::move(more); }

void check_found(const Node& node, const Values& found) {
  if (found.size() != node.inputs.size())
    throw InternalError(node.op->name + ": gradient returned " + std::to_string(found.size()) + " values for " +
                        std::to_string(node.inputs.size()) + " inputs");
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] && found[i].shape() != node.inputs[i].value.shape())
      throw InternalError(node.op->name + ": gradient " + std::to_string(i) + " is " + to_string(found[i].shape()) +
                          ", input is " + to_string(node.inputs[i].value.shape()));
}

void step_back(Visit visit, Visits& visits, Targets& targets, Session& session, Tape tape) {
  Node& node = *visit.node;
  std::vector<bool> wants;
  bool arrived = false;
  for (const auto& s : node.inputs) wants.push_back(s.value.node() && visits.at(s.value.node()->order).needed);
  for (std::size_t o = 0; o < visit.gradients.size(); ++o) {
    complete(visit, o);
    arrived = arrived || visit.gradients[o];
  }
  Values found(node.inputs.size());
  if (arrived) {
    const PathScope path(session, node.scope);
    const Backward call(visit.node, std::move(visit.gradients), wants, session, tape == Tape::extend);
    found = node.rule ? node.rule(call) : node.op->gradient(call);
    check_found(node, found);
  }
  for (std::size_t i = 0; i < wants.size(); ++i) {
    if (!wants[i]) continue;
    const Value& edge = node.inputs[i].value;
    if (found[i]) accumulate(visits.at(edge.node()->order).gradients[at(edge.output())], std::move(found[i]));
    targets.paid(edge, visits);
  }
  if (tape != Tape::release) return;
  for (auto& s : node.outputs) s.value = s.value.without_storage();
  std::vector<Node::Saved> gone;
  gone.swap(node.inputs);
  node.rule = nullptr;
  node.released = true;
}

void mark_needed(Visits& visits, Targets& targets) {
  for (auto it = visits.rbegin(); it != visits.rend(); ++it) {  // oldest first: does it lead to a target?
    it->second.needed = targets.any_of(it->first);
    for (const auto& s : it->second.node->inputs)
      if (s.value.node() && visits.at(s.value.node()->order).needed) it->second.needed = true;
    if (!it->second.needed) continue;
    for (const auto& s : it->second.node->inputs)
      if (s.value.node() && visits.at(s.value.node()->order).needed) targets.owe(s.value);
  }
}

void plant(const Values& outputs, Values& seeds, Visits& visits, Session& session, Tape tape) {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o].node()) continue;
    Value seed = seeds.empty() ? full(session, outputs[o].spec(), 1.0) : std::move(seeds[o]);
    if (!seed) continue;
    if (seed.shape() != outputs[o].shape())
      throw ShapeError("gradient: output gradient " + std::to_string(o) + " is " + to_string(seed.shape()) + ", the output " +
                       to_string(outputs[o].shape()));
    accumulate(visits.at(outputs[o].node()->order).gradients[at(outputs[o].output())],
               tape == Tape::extend ? seed : seed.detached());
  }
}

}  // namespace

Values gradient(const Values& outputs, const Values& inputs, Values seeds, Tape tape, const GradientReady& ready) {
  if (outputs.empty() || !outputs[0]) throw UsageError("gradient: no output given");
  if (!seeds.empty() && seeds.size() != outputs.size())
    throw UsageError("gradient: " + std::to_string(seeds.size()) + " output gradients for " + std::to_string(outputs.size()) + " outputs");
  Session& session = outputs[0].session();
  const GradientMode mode(session, tape == Tape::extend ? GradientMode::Mode::on : GradientMode::Mode::off);
  Visits visits = reach(outputs);
  Targets targets(inputs, seeds, ready);
  mark_needed(visits, targets);
  plant(outputs, seeds, visits, session, tape);
  targets.settle_unowed(visits);
  while (!visits.empty()) {
    Visit visit = std::move(visits.begin()->second);
    visits.erase(visits.begin());
    if (visit.needed && visit.node->op) step_back(std::move(visit), visits, targets, session, tape);
  }
  return std::move(targets.results);
}

std::vector<std::shared_ptr<Node>> leaves_of(const Values& outputs) {
  std::vector<std::shared_ptr<Node>> leaves;
  const Visits visits = reach(outputs);
  for (auto it = visits.rbegin(); it != visits.rend(); ++it)
    if (!it->second.node->op) leaves.push_back(it->second.node);
  return leaves;
}

}  // namespace gemel
