#include "frontends/nn/module.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <span>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"
#include "engine/base/resource_limits.h"
#include "engine/ops/ops.h"

namespace gemel::nn {
namespace {

constexpr std::uint32_t kOtherBasis = 0x9747b28cu;  // a second hash of the same path, so that streams do not collide

std::uint64_t stream_of(const std::string& path) { return std::uint64_t{stream_hash(path.c_str(), kOtherBasis)} << 32 | stream_hash(path.c_str()); }

constexpr std::size_t kChunk = std::size_t{1} << 20;  // numbers drawn from one stream

/// Chunks have streams of their own, so that threads may share the work and the numbers depend on no thread count.
void draw(std::span<float> numbers, const Parameter& p, std::uint64_t seed, std::uint64_t stream) {
  const std::size_t chunks = (numbers.size() + kChunk - 1) / kChunk;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t c = next++; c < chunks; c = next++) {
      PhiloxStream draws(seed, stream + c);
      const std::size_t first = c * kChunk;
      p.initialise(draws, numbers.subspan(first, std::min(kChunk, numbers.size() - first)), static_cast<std::int64_t>(first));
    }
  };
  const std::size_t threads = chunks <= 1 ? chunks : std::min(chunks, static_cast<std::size_t>(allowed_cores().count()));
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < threads; ++t) others.emplace_back(work);
  work();
}

Value initial_value(Session& session, const Parameter& p, const std::string& path) {
  const Value out = session.empty(p.spec, path);
  const std::int64_t before = session.count_begun(path);
  const std::uint64_t stream = stream_of(before == 0 ? path : path + "#" + std::to_string(before));
  session.interpreter().write(out, [&](std::span<std::byte> bytes) {
    draw({reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)}, p, session.seed(), stream);
  });
  return out;
}

Value initial_value(Session& session, const Buffer& b) {
  const TraceScope computing(session, session.interpreter());  // state has memory also where it is made while capturing
  return full(session, b.spec, b.initial);
}

Value nameless(Session& session, const Spec& spec) { return {spec, std::make_shared<Storage>(session, spec.elements())}; }

[[noreturn]] void refuse_unmaterialised(const std::string& name) {
  throw UsageError(name + ": the module has no memory yet; materialise it in a session first");
}

template <class Hooks>
void erase_hook(Hooks& hooks, std::uint64_t id) {
  std::erase_if(hooks, [id](const auto& entry) { return entry.first == id; });
}

template <class M, class F>
void walk(const std::string& path, M& module, const F& f) {
  f(path, module);
  for (const auto& child : module.children()) walk<M>(join_path(path, child->name()), *child, f);
}

}  // namespace

std::string join_path(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

const Value& Parameter::tensor() const {
  if (tied_to) return tied_to->tensor();
  if (!value) refuse_unmaterialised(name);
  return value;
}

void Parameter::bind(const Value& tensor) {
  value = leaf(tensor);
  set_wants_gradient(value, trainable);
  set_gradient_form(value, gradient_form);
}

const Value& Buffer::tensor() const {
  if (!value) refuse_unmaterialised(name);
  return value;
}

Module::Scope::Scope(Session& session, const Module& module) {
  if (!module.name().empty()) scope_.emplace(session, module.name());
  if (session.capturing())
    session.trace().assume([self = std::weak_ptr(module.itself_), modes = module.modes()] {
      const auto alive = self.lock();
      return alive && (*alive)->modes() == modes;
    });
}

Value Module::operator()(Value x) {
  Values y = (*this)(list(std::move(x)));
  if (y.size() != 1) throw UsageError(describe() + ": it gives " + std::to_string(y.size()) + " tensors; accepted: a call with a list of tensors");
  return std::move(y[0]);
}

Values Module::operator()(Values x) {
  if (x.empty() || !x[0]) throw UsageError(describe() + ": the input is empty; accepted: a tensor");
  Session& session = x[0].session();
  const Scope scope(session, *this);
  for (const auto& [id, hook] : std::vector(pre_hooks_)) hook(*this, x);  // copies: a hook may add and remove hooks
  watch(x, backward_hooks_);
  const auto hooks = hooks_;
  Values y = compute(hooks.empty() ? std::move(x) : x);  // where hooks see the inputs, they are not given away
  for (const auto& [id, hook] : hooks) hook(*this, x, y);
  watch(y, backward_pre_hooks_);
  return y;
}

void Module::watch(Values& values, const std::vector<std::pair<HookId, BackwardHook>>& hooks) {
  if (hooks.empty()) return;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] && values[i].wants_gradient()) values[i] = watched(std::move(values[i]), i, hooks);
}

/// The same tensor with a history of its own, whose gradient is this module's alone: the hooks see it on its way back.
Value Module::watched(Value x, std::size_t which, const std::vector<std::pair<HookId, BackwardHook>>& hooks) {
  Value y = apply(reshape_def(), list(x), {{"shape", x.shape()}})[0];
  if (!y.node()) return x;  // nothing is recorded here
  if (y.session().trace().differentiates_by_replay())
    throw UsageError(describe() +
                     ": its backward hooks are not called where it is applied again from a capture (a conditional, a loop, a pipeline); "
                     "accepted: a module without them");
  for (const auto& [id, hook] : hooks)
    y.node()->hooks.emplace_back(0, std::make_shared<const GradientHook>([self = std::weak_ptr(itself_), hook, which](const Value& gradient) -> Value {
                                   Value changed = gradient;
                                   if (const auto module = self.lock()) hook(**module, changed, which);
                                   return changed.storage() == gradient.storage() ? Value() : changed;
                                 }));
  return y;
}

Value Module::forward(Value) { throw UsageError(describe() + ": it has no forward of its own; call its children"); }

Values Module::forward_values(Values x) {
  if (x.size() != 1) throw UsageError(describe() + ": " + std::to_string(x.size()) + " tensors are given; accepted: one");
  return list(forward(std::move(x[0])));
}

Module* Module::find(std::string_view path) {
  if (path.empty()) return this;
  const std::size_t dot = path.find('.');
  const std::string_view first = path.substr(0, dot);
  for (const auto& child : children_)
    if (child->name_ == first) return child->find(dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1));
  return nullptr;
}

void Module::visit(const std::function<void(const std::string&, Module&)>& f) { walk<Module>("", *this, f); }
void Module::visit(const std::function<void(const std::string&, const Module&)>& f) const { walk<const Module>("", *this, f); }

std::vector<std::string> Module::output_layers() const {
  std::vector<std::string> last(1);
  visit([&last](const std::string& path, const Module& m) {
    if (!m.own_parameters().empty()) last[0] = path;
  });
  return last;
}

std::int64_t Module::parameter_elements() const {
  std::int64_t total = 0;
  visit([&total](const std::string&, const Module& m) {
    for (const auto& p : m.own_parameters()) total += p->tied_to ? 0 : p->spec.elements();
  });
  return total;
}

void Module::materialise(Session& session) {
  materialise(session, [](const std::string&) { return true; });
}

void Module::materialise(Session& session, const std::function<bool(const std::string& path)>& accepted) {
  visit([&](const std::string& path, Module& m) {
    for (const auto& p : m.parameters_)
      if (!p->value && !p->tied_to && accepted(join_path(path, p->name))) p->bind(initial_value(session, *p, join_path(path, p->name)));
    for (const auto& b : m.buffers_)
      if (!b->value && accepted(join_path(path, b->name))) b->value = initial_value(session, *b);
  });
}

void Module::declare(Session& session) {
  visit([&session](const std::string&, Module& m) {
    for (const auto& p : m.parameters_)
      if (!p->value && !p->tied_to) p->bind(nameless(session, p->spec));
    for (const auto& b : m.buffers_)
      if (!b->value) b->value = nameless(session, b->spec);
  });
}

void Module::undeclare() {
  const auto clear = [](Value& value) {
    if (value && !value.storage()->memory) value = {};
  };
  visit([&clear](const std::string&, Module& m) {
    for (const auto& p : m.parameters_) clear(p->value);
    for (const auto& b : m.buffers_) clear(b->value);
  });
}

ParameterSet Module::parameters() const {
  ParameterSet set;
  visit([&set](const std::string& path, const Module& m) {
    for (const auto& p : m.parameters_) set.add_parameter(join_path(path, p->name), p->tensor());
    for (const auto& b : m.buffers_) set.add_buffer(join_path(path, b->name), b->tensor());
  });
  return set;
}

ParameterSet Module::materialised() const {
  ParameterSet set;
  visit([&set](const std::string& path, const Module& m) {
    for (const auto& p : m.parameters_)
      if (p->owner().value) set.add_parameter(join_path(path, p->name), p->tensor());
    for (const auto& b : m.buffers_)
      if (b->value) set.add_buffer(join_path(path, b->name), b->value);
  });
  return set;
}

/// All that a forward pass may depend on besides its inputs and state: training, how normalisation goes, and which parameters train.
std::vector<bool> Module::modes() const {
  std::vector<bool> out{mode_.training, mode_.norm_frozen, mode_.batch_parts != nullptr};
  for (const auto& p : parameters_) out.push_back(p->owner().trainable);
  return out;
}

void Module::set_training(bool training) {
  visit([training](const std::string&, Module& m) { m.mode_.training = training; });
}

void Module::set_norm_frozen(bool frozen) {
  visit([frozen](const std::string&, Module& m) { m.mode_.norm_frozen = frozen; });
}

void Module::synchronise_norm(const std::shared_ptr<BatchParts>& parts) {
  visit([&parts](const std::string&, Module& m) { m.mode_.batch_parts = parts; });
}

std::vector<Parameter*> Module::owners() const {
  std::vector<Parameter*> out;
  std::set<const Parameter*> seen;
  visit([&](const std::string&, const Module& m) {
    for (const auto& p : m.parameters_)
      if (seen.insert(&p->owner()).second) out.push_back(&p->owner());
  });
  return out;
}

void Module::set_trainable(bool trainable) {
  for (Parameter* p : owners()) {
    p->trainable = trainable;  // the leaf may have been frozen, or thawed, by itself
    if (p->value) set_wants_gradient(p->value, trainable);
  }
}

void Module::zero_grad() {
  for (const Parameter* p : owners())
    if (p->value) p->value.node()->accumulated = {};
}

void Module::freeze_backbone() {
  freeze();
  for (const std::string& path : output_layers()) find(path)->unfreeze();
}

Module::HookId Module::add_forward_pre_hook(PreHook hook) {
  pre_hooks_.emplace_back(++last_hook_, std::move(hook));
  return last_hook_;
}

Module::HookId Module::add_forward_hook(Hook hook) {
  hooks_.emplace_back(++last_hook_, std::move(hook));
  return last_hook_;
}

Module::HookId Module::add_backward_pre_hook(BackwardHook hook) {
  backward_pre_hooks_.emplace_back(++last_hook_, std::move(hook));
  return last_hook_;
}

Module::HookId Module::add_backward_hook(BackwardHook hook) {
  backward_hooks_.emplace_back(++last_hook_, std::move(hook));
  return last_hook_;
}

void Module::remove_hook(HookId id) {
  erase_hook(backward_pre_hooks_, id);
  erase_hook(backward_hooks_, id);
  erase_hook(pre_hooks_, id);
  erase_hook(hooks_, id);
}

void Module::check_free(const std::string& name) const {
  const auto same = [&name](const auto& entry) { return entry->name == name; };
  const bool taken = std::ranges::any_of(parameters_, same) || std::ranges::any_of(buffers_, same) ||
                     std::ranges::any_of(children_, [&name](const auto& child) { return child->name_ == name; });
  if (taken) throw UsageError(describe() + ": " + name + " is already the name of a parameter, buffer or child");
  if (name.empty() || name.find('.') != std::string::npos) throw UsageError(describe() + ": \"" + name + "\" cannot be a name; accepted: text without dots");
}

Parameter& Module::add_parameter(std::string name, Spec spec, FileLayout layout, Initialiser initialise) {
  check_free(name);
  parameters_.push_back(std::make_unique<Parameter>(Parameter{std::move(name), spec, layout, std::move(initialise)}));
  return *parameters_.back();
}

Buffer& Module::add_buffer(std::string name, Spec spec, double initial) {
  check_free(name);
  buffers_.push_back(std::make_unique<Buffer>(Buffer{std::move(name), spec, initial}));
  return *buffers_.back();
}

void Module::tie(Parameter& alias, Parameter& owner) {
  if (alias.spec != owner.spec)
    throw ShapeError(alias.name + ": it is " + to_string(alias.spec) + ", tied to " + owner.name + ", which is " + to_string(owner.spec) +
                     "; accepted: equal specs");
  if (&owner.owner() == &alias) throw UsageError(alias.name + ": it is tied to itself; accepted: another parameter");
  alias.tied_to = &owner;
  alias.value = {};
}

void Module::adopt_any(std::string name, std::unique_ptr<Module> child) {
  check_free(name);
  child->name_ = std::move(name);
  children_.push_back(std::move(child));
}

}  // namespace gemel::nn
