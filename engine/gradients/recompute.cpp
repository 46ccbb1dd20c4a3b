#include "engine/gradients/recompute.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/gradients/composed_gradient.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

const OpDef& recomputed_def() {  // the name of the node, in errors and listings; its gradient is a rule
  static const OpDef def{.name = "recomputed", .doc = "A function that the backward pass computes again."};
  return def;
}

Values copies_of(const Values& values) {
  Values out;
  for (const Value& v : values) out.push_back(copy(v.detached()));
  return out;
}

/// @param applied  instructions that there were when the first run had ended
std::vector<int> with_first_run(std::vector<int> after, std::size_t applied) {
  if (applied > 0) after.push_back(static_cast<int>(applied) - 1);
  return after;
}

/// The first run's draws and its place in the program, put in force for its lifetime: what runs now draws the same numbers,
/// and is not merged with what ran then.
class Again {
 public:
  Again(Session& session, Random draws, std::size_t applied)
      : session_(session),
        draws_(std::move(draws)),
        recorded_(session, GradientMode::Mode::on),
        later_(session.trace(), with_first_run(session.trace().after(), applied)) {
    std::swap(session_.random(), draws_);
  }
  ~Again() { std::swap(session_.random(), draws_); }
  Again(const Again&) = delete;
  Again& operator=(const Again&) = delete;

 private:
  Session& session_;
  Random draws_;
  GradientMode recorded_;
  RunAfter later_;
};

/// Inputs under names of their own, so that a gradient goes no further than to them.
Values inputs_begun_anew(const Backward& b) {
  Values out;
  for (int i = 0; i < b.input_count(); ++i) {
    const Value v = b.input(i);
    out.push_back(v.wants_gradient() || b.wants(i) ? begun_anew(v) : v);
    if (b.by_rows(i)) set_gradient_form(out.back(), GradientForm::rows);
  }
  return out;
}

/// @param before  nodes made until the second run began
void check_closed(const Values& outputs, const Values& inputs, std::uint64_t before) {
  std::set<const Node*> seen;
  std::vector<std::shared_ptr<Node>> open;
  const auto meet = [&](const Value& v) {
    if (v.node() && seen.insert(v.node().get()).second) open.push_back(v.node());
  };
  for (const Value& v : inputs) seen.insert(v.node().get());
  for (const Value& v : outputs) meet(v);
  while (!open.empty()) {
    const auto node = std::move(open.back());
    open.pop_back();
    if (node->order <= before)
      throw UsageError("recomputed: a value from outside that wants a gradient is used" + (node->op ? " (made by " + node->op->name + ")" : std::string()) +
                       ", and would get none; accepted: what is given as an input, or detached");
    for (const auto& s : node->inputs) meet(s.value);
  }
}

/// The rule of one application.
struct Recomputation {
  Recomputable f;
  Values state;  // as before the first run
  Random draws;
  std::size_t applied;  // instructions when the first run was over

  Values operator()(const Backward& b) const {
    Session& session = b.session();
    Values inputs, outputs;
    {
      const Again again(session, draws, applied);
      const std::uint64_t before = session.nodes_made();
      inputs = inputs_begun_anew(b);
      // The second run moves the state that it is given: another pass needs it as it was.
      outputs = f(inputs, b.tape() == Tape::release ? state : copies_of(state));
      check_closed(outputs, inputs, before);
    }
    Values seeds(outputs.size()), targets, into, found(inputs.size());
    std::vector<bool> adds;
    for (std::size_t o = 0; o < seeds.size(); ++o)
      if (b.has_gradient(static_cast<int>(o))) seeds[o] = b.gradient(static_cast<int>(o));
    std::vector<std::size_t> wanted;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (b.wants(static_cast<int>(i))) {
        wanted.push_back(i);
        targets.push_back(inputs[i]);
        adds.push_back(static_cast<bool>(b.sum(static_cast<int>(i))));
        into.push_back(adds.back() ? b.sum(static_cast<int>(i)) : b.place(static_cast<int>(i)));
      }
    GradientOptions options{.tape = Tape::extend};
    if (b.tape() != Tape::extend)
      options = {.into = into, .adds = adds, .postpone = [&](std::size_t k, const Value& left, const Value& right) {
                   return b.postponed(static_cast<int>(wanted[k]), left, right);
                 }};
    const Values gradients = gradient(outputs, targets, std::move(seeds), options);
    for (std::size_t k = 0; k < wanted.size(); ++k) found[wanted[k]] = gradients[k];
    return found;
  }
};

}  // namespace

Values recomputed(const Recomputable& f, const Values& inputs, const Values& state) {
  if (inputs.empty()) throw UsageError("recomputed: no input is given; accepted: one or more");
  Session& session = inputs[0].session();
  const bool wanted = std::any_of(inputs.begin(), inputs.end(), [](const Value& v) { return v.wants_gradient(); });
  if (!wanted || !session.gradients_enabled() || session.trace().differentiates_by_replay()) return f(inputs, state);
  Recomputation rule{f, {}, session.random(), 0};
  Values outputs;
  {
    const GradientMode unrecorded(session, GradientMode::Mode::off);
    rule.state = copies_of(state);
    outputs = f(inputs, state);
  }
  rule.applied = session.trace().instructions();
  for (Value& v : outputs) v = v.detached();
  const auto node = new_node(session, recomputed_def(), inputs, outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) node->inputs[i].value = inputs[i].wants_gradient() ? inputs[i] : inputs[i].detached();
  node->rule = std::move(rule);
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (is_floating(outputs[o].dtype())) outputs[o] = outputs[o].with_node(node, static_cast<int>(o));
  return outputs;
}

}  // namespace gemel
