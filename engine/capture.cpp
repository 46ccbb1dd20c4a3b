// The graph interpreter: appends an instruction for each application.
#include <fmt/format.h>

#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "engine/ops/ops.h"
#include "engine/program.h"
#include "engine/session.h"

namespace gemel {
namespace {

class GraphTrace : public Trace {
 public:
  GraphTrace(Session& session, Outside outside)
      : session_(session), outside_(outside), first_node_(session.nodes_made()), random_(session.random()), scope_(session, *this) {}
  ~GraphTrace() override {
    session_.random() = std::move(random_);
    for (auto& [storage, version] : bound_) storage->version = version;  // nothing was written yet
  }

  Value input(const Spec& spec) {
    Value v(spec, std::make_shared<Storage>(session_, spec.elements()));
    program_.inputs.push_back({define(v), spec});
    if (outside_ == Outside::bound) return v;
    v = leaf(v);  // a body is differentiated with respect to its own arguments
    arguments_.insert(v.node().get());
    return v;
  }

  void run(const OpDef& op, const Attributes& attributes, Values& in, Values& out) override {
    Program::Instruction step{&op, attributes, {}, {}, *session_.scope(), {}, {}};
    for (const Value& v : in) step.inputs.push_back(use(v, op.name));
    for (const Value& v : out) step.outputs.push_back({define(v), v.spec()});
    if (op.draws && program_.slots[at(step.inputs[at(*op.draws)].slot)].external)
      throw UsageError(op.name + ": the random state is a constant of this graph, every replay would draw the same; accepted: a state that is an input");
    for (int w : op.writes)
      if (outside_ == Outside::passed && foreign_.count(in[at(w)].storage()))
        throw UsageError(op.name + ": writes a value from outside this body; accepted: a pure body, which its gradient can run again");
    program_.code.push_back(std::move(step));
  }

  Program finish(const Values& outputs) {
    for (const Value& v : outputs) program_.outputs.push_back(use(v, "output"));
    return std::move(program_);
  }

 private:
  int define(const Value& v) {
    const int slot = static_cast<int>(program_.slots.size());
    slot_of_[v.storage()] = slot;  // holds the storage, so its address stays its own
    program_.slots.push_back({v.spec().bytes(), nullptr});
    return slot;
  }

  void define_from_outside(const Value& v, const std::string& who) {
    const auto& storage = v.storage();
    const int slot = define(v);
    if (outside_ == Outside::passed) {
      if (v.offset() != 0) throw InternalError(who + ": a view into a slab is used inside a body");
      foreign_[storage] = program_.captured.size();
      program_.inputs.push_back({slot, v.spec()});
      program_.captured.push_back(v.detached());
    } else if (storage->memory) {
      program_.slots[at(slot)].external = storage;
      bound_.emplace_back(storage, storage->version);
    } else {
      throw UsageError(who + ": a value " + to_string(v.spec()) + " of another graph is used here; accepted: values of this graph, or computed ones");
    }
  }

  Program::Use use(const Value& v, const std::string& who) {
    const auto& storage = v.storage();
    if (!slot_of_.count(storage)) define_from_outside(v, who);
    const bool tracked = has_history(v);
    if (const auto it = foreign_.find(storage); it != foreign_.end() && tracked) program_.captured[it->second] = v;
    return {slot_of_[storage], v.spec(), v.offset(), storage->version, tracked};
  }

  bool has_history(const Value& v) const {  // a leaf made inside the body is a fresh start
    return v.node() && (v.node()->op || v.node()->order <= first_node_ || arguments_.count(v.node().get()));
  }

  Session& session_;
  Outside outside_;
  Program program_;
  std::map<std::shared_ptr<Storage>, int> slot_of_;
  std::map<std::shared_ptr<Storage>, std::size_t> foreign_;  // index in captured
  std::uint64_t first_node_;
  std::vector<std::pair<std::shared_ptr<Storage>, std::uint64_t>> bound_;
  std::set<const Node*> arguments_;
  Random random_;  // the session's before the capture, which may begin a symbolic step
  TraceScope scope_;
};

[[noreturn]] void broken(const std::string& after, std::size_t i, const Program::Instruction& step, const std::string& what) {
  throw InternalError(fmt::format("graph: after {}, instruction {} ({}): {}", after, i, step.op->name, what));
}

void verify_specs(const Program::Instruction& step, std::size_t i, const std::string& after) {
  Specs in;
  for (const auto& u : step.inputs) in.push_back(u.spec);
  const Specs out = step.op->infer(in, step.attributes);
  if (out.size() != step.outputs.size()) broken(after, i, step, "the number of outputs differs from what is inferred");
  for (std::size_t o = 0; o < out.size(); ++o)
    if (out[o] != step.outputs[o].spec)
      broken(after, i, step, fmt::format("output {} is {}, inferred {}", o, to_string(step.outputs[o].spec), to_string(out[o])));
}

}  // namespace

Program capture(Session& session, const Specs& inputs, const std::function<Values(const Values&)>& body, Outside outside) {
  GraphTrace graph(session, outside);
  Values in;
  for (const Spec& s : inputs) in.push_back(graph.input(s));
  return graph.finish(body(in));
}

Values replay(Session& session, const Program& program, const Values& inputs) {
  std::map<int, Value> value;
  const auto see = [&value](const Program::Use& u) {
    const Value& v = value.at(u.slot);
    return reshape(u.tracked ? v : v.detached(), u.spec.shape);
  };
  for (std::size_t i = 0; i < program.inputs.size(); ++i) value[program.inputs[i].slot] = inputs.at(i);
  for (std::size_t s = 0; s < program.slots.size(); ++s)
    if (const auto& external = program.slots[s].external) {
      for (const auto& step : program.code)
        for (const auto& u : step.inputs)
          if (u.slot == static_cast<int>(s)) value[u.slot] = Value(u.spec, external, u.offset);
    }
  for (const auto& step : program.code) {
    const PathScope path(session, std::make_shared<const std::string>(step.scope));
    Values in;
    for (const auto& u : step.inputs) in.push_back(see(u));
    Values out = apply(session, *step.op, std::move(in), step.attributes);
    for (std::size_t o = 0; o < out.size(); ++o) value[step.outputs[o].slot] = std::move(out[o]);
  }
  Values out;
  for (const auto& u : program.outputs) out.push_back(see(u));
  return out;
}

void verify(const Program& program, const std::string& after) {
  std::vector<bool> defined(program.slots.size(), false);
  for (std::size_t s = 0; s < program.slots.size(); ++s) defined[s] = program.slots[s].external != nullptr;
  for (const auto& u : program.inputs) defined[at(u.slot)] = true;
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    const auto& step = program.code[i];
    for (const auto& u : step.inputs) {
      if (!defined[at(u.slot)]) broken(after, i, step, fmt::format("slot {} is used before it is made", u.slot));
      if (!program.slots[at(u.slot)].external && u.offset * static_cast<std::int64_t>(size_of(u.spec.dtype)) + u.spec.bytes() > program.slots[at(u.slot)].bytes)
        broken(after, i, step, fmt::format("slot {} of {} bytes is used as {}", u.slot, program.slots[at(u.slot)].bytes, to_string(u.spec)));
    }
    verify_specs(step, i, after);
    for (const auto& u : step.outputs) {
      if (defined[at(u.slot)]) broken(after, i, step, fmt::format("slot {} is made twice", u.slot));
      defined[at(u.slot)] = true;
    }
  }
  for (const auto& u : program.outputs)
    if (!defined[at(u.slot)]) throw InternalError(fmt::format("graph: after {}, output slot {} is never made", after, u.slot));
}

std::string to_string(const Program& program) {
  const auto name = [&](const Program::Use& u) {
    return fmt::format("{}{}:{}", program.slots[at(u.slot)].external ? "@" : "%", u.slot, to_string(u.spec));
  };
  const auto names = [&](const std::vector<Program::Use>& uses) {
    std::string out;
    for (const auto& u : uses) out += (out.empty() ? "" : ", ") + name(u);
    return out;
  };
  std::string text = fmt::format("inputs {}\n", names(program.inputs));
  for (const auto& step : program.code) {
    const std::string attributes = to_string(step.attributes);
    text += fmt::format("{} = {}({}){}{}\n", names(step.outputs), step.op->name, names(step.inputs),
                        attributes.empty() ? "" : " {" + attributes + "}", step.scope.empty() ? "" : "  # " + step.scope);
  }
  return text + fmt::format("outputs {}\n", names(program.outputs));
}

}  // namespace gemel
