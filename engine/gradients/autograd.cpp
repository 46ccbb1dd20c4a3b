#include "engine/gradients/autograd.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/gradients/gradient_complete.h"
#include "engine/gradients/row_gradient.h"
#include "engine/gradients/visits.h"
#include "engine/ops/ops.h"

namespace gemel {

Backward::Backward(std::shared_ptr<Node> node, Values gradients, Wanted wanted, Session& session, Tape tape)
    : node_(std::move(node)), gradients_(std::move(gradients)), wanted_(std::move(wanted)), session_(session), tape_(tape) {}

const Value& Backward::gradient(int o) const {
  if (!has_gradient(o)) throw InternalError(node_->op->name + ": no gradient arrived for output " + std::to_string(o));
  return gradients_[at(o)];
}

bool Backward::by_rows(int i) const {
  const auto& from = node_->inputs[at(i)].value.node();
  return wants(i) && tape_ != Tape::extend && !from->op && (from->gradient_form == GradientForm::rows || (!wanted_.rows.empty() && wanted_.rows[at(i)]));
}

Value Backward::fresh(const Node::Saved& saved, const char* what, int i) const {
  const auto who = [&] { return node_->op->name + ": " + what + " " + std::to_string(i); };
  if (!saved.value) throw InternalError(who() + " was not kept; declare it in gradient_reads");
  const std::uint64_t now = version_of(saved.value);
  if (now != saved.version)
    throw UsageError(who() + " is needed for the gradient but was changed in place after it was saved (version " + std::to_string(now) + ", saved at " +
                     std::to_string(saved.version) + "); accepted: change a copy, or run backward first");
  return saved.value;
}

Value Backward::input(int i) const {
  Value v = fresh(node_->inputs[at(i)], "input", i);
  return tape_ == Tape::extend ? v : v.detached();
}

Value Backward::output(int i) const {
  Value v = fresh(node_->outputs[at(i)], "output", i);
  return tape_ == Tape::extend ? v.with_node(node_, i) : v.detached();
}

namespace {

Value copy_of(const Value& gradient) {
  const RowValues* rows = row_values(gradient);
  return rows ? table_of({rows->indices, copy(rows->values)}, gradient.spec()) : copy(gradient);
}

/// Hooks see a gradient once, when all its contributions have arrived. @param put  (gradient, what replaces it)
template <class Put>
void complete(Visit& visit, std::size_t output, Put put) {
  if (visit.hooked[output] || !visit.gradients[output]) return;
  visit.hooked[output] = true;
  const auto hooks = visit.node->hooks;  // a hook may remove itself
  for (const auto& [o, hook] : hooks)
    if (at(o) == output) {
      Value replaced = (*hook)(visit.gradients[output]);
      if (replaced) put(visit.gradients[output], std::move(replaced));
    }
}

/// The gradients asked for: how many edges still owe a contribution, and what to do when none does.
class Targets {
 public:
  /// A node's output.
  using Key = std::pair<std::uint64_t, int>;
  struct Target {
    Key key;
    std::vector<std::size_t> indices;  // of the results
    int pending = 0;
  };

  Targets(const Values& inputs, const Values& seeds, const GradientOptions& options) : results(inputs.size()), options_(options), into_(options.into) {
    if (options.ready) observer_ = std::make_shared<GradientObserver>(options.ready);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].node()) throw UsageError("gradient: input " + std::to_string(i) + " does not want a gradient");
      if (inputs[i].wants_gradient()) targets_.push_back({{inputs[i].node()->order, inputs[i].output()}, {i}});
    }
    std::ranges::stable_sort(targets_, {}, &Target::key);
    join_equal();
    for (const Value& s : seeds) taken_.insert(s.storage().get());
  }
  bool any_of(std::uint64_t order) const {
    const auto it = std::ranges::lower_bound(targets_, Key{order, 0}, {}, &Target::key);
    return it != targets_.end() && it->key.first == order;
  }
  /// Null where nobody asks for the gradient of an edge.
  Target* find(const Value& edge) {
    const Key key{edge.node()->order, edge.output()};
    const auto it = std::ranges::lower_bound(targets_, key, {}, &Target::key);
    return it == targets_.end() || it->key != key ? nullptr : &*it;
  }
  /// The result of a contribution that is alone, the first and the last one, so that it may be put or added to its place at once.
  static std::optional<std::size_t> alone_at(const Target* target, const Visit& visit) {
    if (!target || target->pending != 1) return {};
    if (visit.node->op || !visit.node->hooks.empty() || visit.gradients[at(target->key.second)]) return {};
    return target->indices.front();
  }
  Value place(std::size_t target) const { return into_.empty() ? Value() : into_[target]; }
  bool may_be_rows(std::size_t target) const { return !options_.rows.empty() && options_.rows[target]; }
  /// Whether all who ask for it take rows.
  bool may_be_rows(const Target* target) const {
    return target && std::ranges::all_of(target->indices, [&](std::size_t i) { return may_be_rows(i); });
  }
  const GradientOptions& options() const { return options_; }
  bool adds(std::size_t target) const { return !options_.adds.empty() && options_.adds[target]; }
  void owe(const Value& edge) {
    if (Target* target = find(edge)) ++target->pending;
  }
  void paid(Target* target, Visit& visit, Visits& visits) {
    if (target && --target->pending == 0) settle(*target, visit, visits);
  }
  void settle_unowed(Visits& visits) {
    for (const Target& target : targets_)
      if (target.pending == 0)
        if (const auto found = visits.map().find(target.key.first); found != visits.map().end()) settle(target, found->second, visits);
  }

  Values results;

 private:
  /// A gradient that is asked for more than once is one target.
  void join_equal() {
    std::size_t kept = 0;
    for (std::size_t t = 0; t < targets_.size(); ++t) {
      if (kept > 0 && targets_[kept - 1].key == targets_[t].key)
        targets_[kept - 1].indices.push_back(targets_[t].indices.front());
      else if (kept++ != t)
        targets_[kept - 1] = std::move(targets_[t]);
    }
    targets_.resize(kept);
  }
  /// Copies a gradient to its place, or adds it to what lies there.
  Value put(Value gradient, std::size_t target) const {
    const Value& place = into_[target];
    if (adds(target)) return apply(add_def(), list(place, std::move(gradient)), {}, std::span(&place, 1))[0];
    return apply(copy_def(), list(std::move(gradient)), {}, std::span(&place, 1))[0];
  }
  void settle(const Target& target, Visit& visit, Visits& visits) {
    complete(visit, at(target.key.second), [&](Value& gradient, Value by) { visits.replace(gradient, std::move(by)); });
    Value& gradient = visit.gradients[at(target.key.second)];
    if (!gradient) return;
    const Value arrived = visit.node->op ? gradient : visits.take(gradient);  // nobody visits a leaf
    for (std::size_t i : target.indices) {
      Value g = arrived;
      // A result may be written in place: it shares no storage with another, with a seed, or with what a visit will read.
      const bool stays_rows = may_be_rows(i) && row_values(g);
      if (!into_.empty() && into_[i] && !stays_rows) {
        if (row_values(g)) g = to_dense(g, adds(i) ? Value() : into_[i]);
        if (g.storage() != into_[i].storage()) g = put(g.detached(), i);
      } else if (visits.holds(g) || !taken_.insert(numbers_of(g)).second) {
        g = copy_of(g);
      }
      taken_.insert(numbers_of(g));
      if (observer_) gradient_complete(g, observer_, i);
      if (options_.take)
        options_.take(i, g);
      else
        results[i] = std::move(g);
    }
  }
  std::vector<Target> targets_;  // by key
  std::unordered_set<const Storage*> taken_;
  const GradientOptions& options_;
  const Values& into_;
  std::shared_ptr<GradientObserver> observer_;
};

void check_found(const Node& node, const Values& found) {
  if (found.size() != node.inputs.size())
    throw InternalError(node.op->name + ": gradient returned " + std::to_string(found.size()) + " values for " + std::to_string(node.inputs.size()) +
                        " inputs");
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] && found[i].spec() != node.inputs[i].value.spec())
      throw InternalError(node.op->name + ": gradient " + std::to_string(i) + " is " + to_string(found[i].spec()) + ", input is " +
                          to_string(node.inputs[i].value.spec()));
}

void step_back(Visit visit, Visits& visits, Targets& targets, Session& session, Tape tape) {
  Node& node = *visit.node;
  std::vector<bool> wants;
  bool arrived = false;
  Backward::Wanted wanted{.inputs = {}, .places = Values(node.inputs.size()), .sums = Values(node.inputs.size())};
  std::vector<std::optional<std::size_t>> alone(node.inputs.size());
  std::vector<Targets::Target*> asked(node.inputs.size());
  for (const Visit* from : visit.from) wants.push_back(from && from->needed);
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (wants[i]) asked[i] = targets.find(node.inputs[i].value);
  for (std::size_t i = 0; i < alone.size() && tape != Tape::extend; ++i)
    if (wants[i]) alone[i] = Targets::alone_at(asked[i], *visit.from[i]);
  for (std::size_t i = 0; i < alone.size(); ++i)
    if (alone[i]) (targets.adds(*alone[i]) ? wanted.sums : wanted.places)[i] = targets.place(*alone[i]);
  for (const Targets::Target* target : asked) wanted.rows.push_back(targets.may_be_rows(target));
  if (const PostponeProduct& postpone = targets.options().postpone)
    wanted.postpone = [&](std::size_t i, const Value& left, const Value& right) { return alone[i] && postpone(*alone[i], left, right); };
  for (std::size_t o = 0; o < visit.gradients.size(); ++o) {
    complete(visit, o, [](Value& gradient, Value by) { gradient = std::move(by); });
    arrived = arrived || visit.gradients[o];
  }
  Values found(node.inputs.size());
  if (arrived) {
    const PathScope path(session, node.scope);
    wanted.inputs = wants;
    const Backward call(visit.node, std::move(visit.gradients), std::move(wanted), session, tape);
    found = node.rule ? node.rule(call) : node.op->gradient(call);
    check_found(node, found);
  }
  for (std::size_t i = 0; i < wants.size(); ++i)
    if (wants[i] && found[i]) visits.accumulate(node.inputs[i].value, *visit.from[i], std::move(found[i]));
  for (std::size_t i = 0; i < wants.size(); ++i)  // once all have their place: a result handed out shares none
    if (wants[i]) targets.paid(asked[i], *visit.from[i], visits);
  if (tape != Tape::release) return;
  for (auto& s : node.outputs) s.value = s.value.without_storage();
  std::vector<Node::Saved> gone;
  gone.swap(node.inputs);
  node.hooks.clear();  // one that holds the node's own tensor would keep it
  node.rule = nullptr;
  node.released = true;
}

void mark_needed(Visits& visits, Targets& targets) {
  for (auto it = visits.map().rbegin(); it != visits.map().rend(); ++it) {  // oldest first: does it lead to a target?
    Visit& visit = it->second;
    const auto& inputs = visit.node->inputs;
    visit.needed = targets.any_of(it->first);
    visit.from.reserve(inputs.size());
    for (const auto& s : inputs) {
      visit.from.push_back(s.value.node() ? &visits.at_node(*s.value.node()) : nullptr);
      if (visit.from.back() && visit.from.back()->needed) visit.needed = true;
    }
    for (std::size_t i = 0; i < inputs.size() && visit.needed; ++i)
      if (visit.from[i] && visit.from[i]->needed) targets.owe(inputs[i].value);
  }
}

void plant(const Values& outputs, Values& seeds, Visits& visits, Session& session, Tape tape) {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o].node()) continue;
    Value seed = seeds.empty() ? full(session, outputs[o].spec(), 1.0) : std::move(seeds[o]);
    if (!seed) continue;
    if (seed.shape() != outputs[o].shape())
      throw ShapeError("gradient: output gradient " + std::to_string(o) + " is " + to_string(seed.shape()) + ", the output " + to_string(outputs[o].shape()));
    visits.accumulate(outputs[o], visits.at_node(*outputs[o].node()), tape == Tape::extend ? seed : seed.detached());
  }
}

void check(const GradientOptions& options, std::size_t inputs) {
  if (!options.into.empty() && options.into.size() != inputs)
    throw UsageError("gradient: memory for " + std::to_string(options.into.size()) + " results for " + std::to_string(inputs) + " inputs");
  if (!options.adds.empty() && options.adds.size() != options.into.size())
    throw UsageError("gradient: whether to add is said of " + std::to_string(options.adds.size()) + " results, memory is given for " +
                     std::to_string(options.into.size()) + "; accepted: as many, or of none");
  if (!options.rows.empty() && options.rows.size() != inputs)
    throw UsageError("gradient: whether it may be rows is said of " + std::to_string(options.rows.size()) + " results for " + std::to_string(inputs) +
                     " inputs; accepted: of as many, or of none");
  if (options.tape != Tape::extend) return;
  const auto refuse = [](bool given, const std::string& what) {
    if (given) throw UsageError("gradient: " + what + " given with Tape::extend, where their histories go on; accepted: release or retain");
  };
  refuse(bool(options.ready), "whom to tell of complete gradients is");
  refuse(bool(options.postpone), "whom to offer products to is");
  refuse(std::ranges::any_of(options.into, [](const Value& v) { return bool(v); }), "memory for results is");
}

}  // namespace

Values gradient(const Values& outputs, const Values& inputs, Values seeds, Tape tape) {
  return gradient(outputs, inputs, std::move(seeds), GradientOptions{.tape = tape});
}

Values gradient(const Values& outputs, const Values& inputs, Values seeds, const GradientOptions& options) {
  const Tape tape = options.tape;
  if (outputs.empty() || !outputs[0]) throw UsageError("gradient: no output given");
  check(options, inputs.size());
  if (!seeds.empty() && seeds.size() != outputs.size())
    throw UsageError("gradient: " + std::to_string(seeds.size()) + " output gradients for " + std::to_string(outputs.size()) + " outputs");
  Session& session = outputs[0].session();
  for (const Values* values : {&outputs, &inputs})  // nodes are numbered in one session
    if (std::ranges::any_of(*values, [&](const Value& v) { return v && &v.session() != &session; }))
      throw UsageError("gradient: a tensor belongs to another session; accepted: outputs and inputs of one session");
  const GradientMode mode(session, tape == Tape::extend ? GradientMode::Mode::on : GradientMode::Mode::off);
  Visits visits = reach(outputs);
  for (const Value& v : inputs)
    if (session.capturing() && v.node() && !v.node()->op) session.trace().assume(stays_as_frozen(v, session.trace().nodes_before()));
  Targets targets(inputs, seeds, options);
  mark_needed(visits, targets);
  plant(outputs, seeds, visits, session, tape);
  targets.settle_unowed(visits);
  while (!visits.map().empty()) {
    Visit visit = visits.take_latest();
    if (visit.needed && visit.node->op) step_back(std::move(visit), visits, targets, session, tape);
  }
  return std::move(targets.results);
}

std::vector<std::size_t> gradient_order(const Values& outputs, const Values& inputs) {
  std::map<const Node*, std::uint64_t> last;  // the earliest node that uses each: visited last
  Visits visits = reach(outputs);
  for (const auto& [order, visit] : visits.map())
    for (const auto& s : visit.node->inputs)
      if (s.value.node()) last[s.value.node().get()] = order;
  std::vector<std::size_t> out(inputs.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  const auto completed_at = [&](std::size_t i) {
    const auto it = last.find(inputs[i].node().get());
    return it == last.end() ? 0 : it->second;
  };
  std::ranges::stable_sort(out, std::greater(), completed_at);
  return out;
}

std::vector<std::int64_t> looked_up_rows(const Values& outputs, const Values& inputs) {
  std::map<const Node*, std::int64_t> rows;  // -1: used otherwise, too
  Visits visits = reach(outputs);
  for (const auto& [order, visit] : visits.map())
    for (std::size_t i = 0; i < visit.node->inputs.size(); ++i) {
      const Value& used = visit.node->inputs[i].value;
      if (!used.node() || used.node()->op) continue;
      const bool looks_up = i == 0 && visit.node->op->looks_up && used.shape().rank() == 2 && visit.node->attributes.integer("axis") == 0;
      std::int64_t& sum = rows[used.node().get()];
      if (!looks_up)
        sum = -1;
      else if (sum >= 0)
        sum += visit.node->inputs[1].value.elements();
    }
  std::vector<std::int64_t> out;
  for (const Value& v : inputs) {
    const auto it = rows.find(v.node().get());
    out.push_back(it == rows.end() ? 0 : std::max<std::int64_t>(0, it->second));
  }
  return out;
}

std::vector<std::shared_ptr<Node>> leaves_of(const Values& outputs) {
  std::vector<std::shared_ptr<Node>> leaves;
  Visits visits = reach(outputs);
  for (auto it = visits.map().rbegin(); it != visits.map().rend(); ++it)
    if (!it->second.node->op) leaves.push_back(it->second.node);
  return leaves;
}

}  // namespace gemel
