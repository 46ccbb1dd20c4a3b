#include "engine/core/trace.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/gradients/row_gradient.h"

namespace gemel {
namespace {

bool bit(std::uint32_t mask, std::size_t i) { return (mask >> std::min<std::size_t>(i, 31)) & 1u; }

/// Only inputs that want a gradient count: a product with a constant keeps nothing of the variable.
Reads reads_of(const OpDef& op, const Values& in) {
  Reads reads;
  for (std::size_t i = 0; i < in.size() && !op.gradient_reads.empty(); ++i)
    if (in[i].wants_gradient()) reads = reads | op.gradient_reads[std::min(i, op.gradient_reads.size() - 1)];
  return reads;
}

/// Moves the attributes into the node, if there is one.
std::shared_ptr<Node> record(Session& session, const OpDef& op, Attributes& attributes, const Values& in, const Values& out) {
  if (!op.gradient || !session.gradients_enabled()) return nullptr;
  if (std::none_of(in.begin(), in.end(), [](const Value& v) { return v.wants_gradient(); })) return nullptr;
  if (std::none_of(out.begin(), out.end(), [](const Value& v) { return is_floating(v.dtype()); })) return nullptr;
  auto node = new_node(session, op, in, out);
  node->attributes = std::move(attributes);
  const Reads reads = reads_of(op, in);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (bit(reads.inputs, i)) node->inputs[i].value = in[i];
  for (std::size_t o = 0; o < out.size(); ++o)
    if (bit(reads.outputs, o)) node->outputs[o].value = out[o];
  return node;
}

Specs checked_specs(const Session& session, const OpDef& op, const Values& in) {
  Specs specs;
  specs.reserve(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i]) throw UsageError(op.name + ": input " + std::to_string(i) + " is empty");
    if (row_values(in[i])) refuse_rows(op.name + ": input " + std::to_string(i), in[i]);  // a name is made for none that is accepted
    if (&in[i].session() != &session)
      throw UsageError(op.name + ": input " + std::to_string(i) + " " + to_string(in[i].spec()) +
                       " belongs to another session; accepted: tensors of one session");
    specs.push_back(in[i].spec());
  }
  return specs;
}

/// Where an output goes that is not given memory of its own.
Value given_memory(const OpDef& op, const Value& into, const Spec& spec) {
  if (into.spec() != spec) throw InternalError(op.name + ": its output is " + to_string(spec) + ", the memory given for it " + to_string(into.spec()));
  return into.detached();
}

Values apply_unprefixed(Session& session, const OpDef& op, Values& in, Attributes& attributes, std::span<const Value> into) {
  const Specs specs = checked_specs(session, op, in);
  Specs inferred = op.infer(specs, attributes);
  for (int w : op.writes)
    if (session.gradients_enabled() && in[at(w)].wants_gradient())
      throw UsageError(op.name + ": input " + std::to_string(w) +
                       " is written in place but wants a gradient; accepted: a detached tensor, or a no-gradient scope");
  Values out;
  out.reserve(inferred.size());
  for (Spec& spec : inferred) {
    if (op.views) {
      const Value& viewed = in[at(*op.views)];
      out.push_back(viewed.view(std::move(spec), 0));
    } else if (out.size() < into.size() && into[out.size()]) {
      out.push_back(given_memory(op, into[out.size()], spec));
    } else {
      const std::int64_t elements = spec.elements();
      out.emplace_back(std::move(spec), std::make_shared<Storage>(session, elements));
    }
  }
  const auto node = record(session, op, attributes, in, out);  // before it runs: what a node keeps cannot be reused
  if (!op.views) session.trace().run(op, node ? node->attributes : attributes, in, out);
  for (int w : op.writes) session.trace().wrote(in[at(w)].storage());
  for (const Value& v : into)
    if (v) session.trace().wrote(v.storage());
  if (node)
    for (std::size_t o = 0; o < out.size(); ++o) out[o] = out[o].with_node(node, static_cast<int>(o));
  return out;
}

std::string prefixed(const Session& session, const Error& e) { return *session.scope() + ": " + e.what(); }

}  // namespace

Specs specs_of(std::span<const Value> values) {
  Specs out;
  out.reserve(values.size());
  for (const Value& v : values) out.push_back(v.spec());
  return out;
}

std::shared_ptr<Node> new_node(Session& session, const OpDef& op, const Values& in, const Values& out) {
  auto node = std::make_shared<Node>();
  node->op = &op;
  node->order = session.next_node();
  node->scope = session.scope();
  Trace& trace = session.trace();
  node->inputs.reserve(in.size());
  node->outputs.reserve(out.size());
  for (const Value& v : in) node->inputs.push_back({(v.wants_gradient() ? v : v.detached()).without_storage(), trace.version(v.storage())});
  for (const Value& v : out) node->outputs.push_back({v.without_storage(), trace.version(v.storage())});
  return node;
}

Value leaf(const Value& value) {
  auto node = std::make_shared<Node>();
  node->order = value.session().next_node();
  node->symbolic = !value.storage()->memory;
  return value.with_node(std::move(node), 0);
}

std::function<bool()> stays_as_frozen(const Value& leaf, std::uint64_t nodes_before) {
  return [leaf = std::weak_ptr(leaf.node()), frozen = leaf.node()->frozen, own = leaf.node()->order > nodes_before] {
    const auto node = leaf.lock();
    return node ? node->frozen == frozen : own;
  };
}

void set_wants_gradient(const Value& leaf, bool wanted) {
  if (!leaf.node() || leaf.node()->op) throw UsageError("set_wants_gradient: " + to_string(leaf.spec()) + " is no leaf; accepted: a leaf");
  leaf.node()->frozen = !wanted;
}

void set_gradient_form(const Value& leaf, GradientForm form) {
  const auto refuse = [&](const char* why) { throw UsageError("set_gradient_form: " + to_string(leaf.spec()) + " " + why); };
  if (!leaf.node() || leaf.node()->op) refuse("is no leaf; accepted: a leaf");
  if (form == GradientForm::rows && (leaf.dtype() != DType::float32 || leaf.shape().rank() != 2))
    refuse("is no table; accepted for rows: float32 [rows, width]");
  if (leaf.node()->slab) refuse("is in a slab already; accepted: a leaf before an optimizer holds it");
  leaf.node()->gradient_form = form;
}

Storage::Storage(Session& in_session, std::int64_t size) : session(in_session.itself()), elements(size) {}

void Value::refuse_ended() const {
  throw UsageError("tensor: " + to_string(spec_) +
                   " is used after its session has ended; accepted: a session that is kept as long as its tensors, or numbers "
                   "that were read before");
}

Value Value::without_storage() const {
  Value v = *this;
  v.storage_ = nullptr;
  return v;
}

Value Value::with_node(std::shared_ptr<Node> node, int output) const {
  Value v(spec_, storage_, offset_);
  v.node_ = std::move(node);
  v.output_ = output;
  return v;
}

Node::~Node() {
  std::vector<std::shared_ptr<Node>> last;
  auto take = [&last](Node& n) {
    for (Saved& s : n.inputs)
      if (s.value.node()) last.push_back(s.value.take_node());
  };
  take(*this);
  while (!last.empty()) {
    const auto node = std::move(last.back());
    last.pop_back();
    if (node.use_count() == 1) take(*node);
  }
}

Values apply(Session& session, const OpDef& op, Values in, Attributes attributes, std::span<const Value> into) {
  session.check_thread();
  if (session.scope()->empty()) return apply_unprefixed(session, op, in, attributes, into);
  try {
    return apply_unprefixed(session, op, in, attributes, into);
  } catch (const ShapeError& e) {
    throw ShapeError(prefixed(session, e));
  } catch (const MemoryError& e) {
    throw MemoryError(prefixed(session, e));
  } catch (const DeviceError& e) {
    throw DeviceError(prefixed(session, e));
  }
}

Values apply(const OpDef& op, Values in, Attributes attributes, std::span<const Value> into) {
  if (in.empty() || !in[0]) throw UsageError(op.name + ": input 0 is empty");
  Session& session = in[0].session();
  return apply(session, op, std::move(in), std::move(attributes), into);
}

void Interpreter::write(const Value& to, const std::function<void(std::span<std::byte>)>& make) {
  std::vector<std::byte> bytes(at(to.spec().bytes()));
  make(bytes);
  write(to, std::span<const std::byte>(bytes));
}

std::shared_ptr<void> Interpreter::observe(Observer observer) {
  auto held = std::make_shared<Observer>(std::move(observer));
  observers_.push_back(held);
  return held;
}

bool Interpreter::observed() const {
  return std::ranges::any_of(observers_, [](const auto& observer) { return !observer.expired(); });
}

void Interpreter::run(const OpDef& op, const Attributes& attributes, Values& in, Values& out) {
  for (std::size_t i = 0; i < in.size(); ++i)
    if (!in[i].storage()->memory)
      throw UsageError(op.name + ": input " + std::to_string(i) + " " + to_string(in[i].spec()) + " is a name in the graph '" +
                       (in[i].storage()->graph ? *in[i].storage()->graph : "") + "', not a computed tensor; accepted here: values of the eager front end");
  for (std::size_t o = 0; o < out.size(); ++o) {
    Storage& made = *out[o].storage();
    for (const Reuse& r : op.may_reuse) {
      const Value& given = in[at(r.input)];
      if (at(r.output) == o && !made.memory && given.storage().use_count() == 1 && given.offset() == 0 && given.storage()->elements == made.elements &&
          given.shape().elements() == made.elements && size_of(given.dtype()) == size_of(out[o].dtype()))
        made.memory = given.storage()->memory;
    }
    if (!made.memory) made.memory = allocate(out[o].spec(), op.name);
  }
  compute(op, attributes, in, out);
}

}  // namespace gemel
