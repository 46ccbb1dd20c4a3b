#include "frontends/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/ops.h"
#include "frontends/optim/clip.h"

namespace gemel::optim {
namespace {

void check_once(const std::vector<NamedValue>& parameters) {
  std::map<std::string_view, const Value*> seen;
  std::map<const Storage*, std::string_view> memory;
  for (const NamedValue& p : parameters) {
    if (const auto [it, is_new] = seen.emplace(p.name, &p.value); !is_new) {
      if (it->second->storage() == p.value.storage()) throw UsageError("optimizer: " + p.name + " is in two groups; accepted: each parameter once");
      throw UsageError(
          fmt::format("optimizer: two parameters are named {0}, {1} and {2}, as those of two modules are; accepted: a name for each, "
                      "such as first.{0} and second.{0}",
                      p.name, to_string(it->second->spec()), to_string(p.value.spec())));
    }
    if (const auto [it, is_new] = memory.emplace(p.value.storage().get(), p.name); !is_new)
      throw UsageError(fmt::format("optimizer: {} is the same tensor as {}; accepted: each parameter once", p.name, it->second));
  }
}

}  // namespace

std::vector<Group> all_in_one(const ParameterSet& parameters) { return {{parameters.trainable()}}; }

std::vector<Group> no_decay_on_vectors(const ParameterSet& parameters) {
  std::vector<Group> groups(2);
  groups[1].weight_decay = 0;
  for (NamedValue& p : parameters.trainable()) groups[p.value.shape().rank() >= 2 ? 0 : 1].parameters.push_back(std::move(p));
  return groups;
}

std::vector<Group> no_decay_on_rows(std::vector<Group> groups) {
  std::vector<Group> out;
  for (Group& g : groups) {
    const auto rows = std::ranges::stable_partition(g.parameters, [](const NamedValue& p) { return p.value.node()->gradient_form == GradientForm::dense; });
    Group of_rows{{rows.begin(), rows.end()}, g.rate_factor, 0};
    g.parameters.erase(rows.begin(), rows.end());
    out.push_back(std::move(g));
    if (!of_rows.parameters.empty()) out.push_back(std::move(of_rows));
  }
  return out;
}

std::string parameter_of_slot(const std::string& slot) { return slot.substr(slot.find('.') + 1); }

Optimizer::Optimizer(std::vector<Group> groups, Hyperparameters common, std::vector<std::string> slots)
    : hyper_(std::make_shared<Hyperparameters>(std::move(common))), slot_names_(std::move(slots)) {
  std::vector<NamedValue> all;
  for (const Group& g : groups) all.insert(all.end(), g.parameters.begin(), g.parameters.end());
  if (all.empty() && !groups.empty()) throw UsageError("optimizer: no trainable parameter given; accepted: at least one");
  check_once(all);
  // What is defined last is reached first by a backward pass.
  const Values values = values_of(all);
  ParameterSlab::pack(Values(values.rbegin(), values.rend()));
  for (Group& g : groups) add_group(std::move(g));
}

void Optimizer::add_group(Group group) {
  std::vector<NamedValue> all = parameters_;
  all.insert(all.end(), group.parameters.begin(), group.parameters.end());
  check_once(all);
  const Values values = values_of(group.parameters);
  ParameterSlab::pack(Values(values.rbegin(), values.rend()));
  make_shards(values);
  for (const NamedValue& p : group.parameters) {
    Shard& shard = *shard_of(p.value);
    const std::size_t i = p.value.node()->index_in_slab;
    shard.parameters[i] = std::ssize(parameters_);
    for (std::size_t s = 0; s < slot_names_.size(); ++s) state_.push_back({slot_names_[s] + "." + p.name, shard.slots[s].part(i)});
    parameters_.push_back(p);
    hyper_->rows.push_back({p.value, groups_.size()});
  }
  hyper_->groups.push_back({group.rate_factor, group.weight_decay});
  groups_.push_back(std::move(group));
}

Optimizer::Shard* Optimizer::shard_of(const Value& parameter) {
  const auto found = std::ranges::find(shards_, parameter.node()->slab, &Shard::slab);
  return found == shards_.end() ? nullptr : &*found;
}

/// For all of them or, where memory is short, for none.
void Optimizer::make_shards(const Values& parameters) {
  const std::size_t before = shards_.size();
  try {
    for (const Value& p : parameters) {
      if (shard_of(p)) continue;
      const auto& slab = p.node()->slab;
      Shard shard{slab, {}, std::vector<std::ptrdiff_t>(slab->size(), -1)};
      for (const std::string& name : slot_names_) shard.slots.push_back(slab->slot(name));
      shards_.push_back(std::move(shard));
    }
  } catch (...) {
    shards_.erase(shards_.begin() + std::ptrdiff_t(before), shards_.end());
    throw;
  }
}

Values Optimizer::hyper(double rate) const {
  if (parameters_.empty()) throw UsageError("optimizer: it has no parameters; accepted: one at least");
  return {hyper_->tensor(parameters_[0].value.session(), rate)};
}

Values Optimizer::gradient_places() const {
  Values out;
  for (const NamedValue& p : parameters_) out.push_back(gradient_place(p.value));
  return out;
}

/// Puts every dense gradient in its place; frozen parameters have none.
void Optimizer::settle(Values& gradients) const {
  if (gradients.size() != parameters_.size())
    throw UsageError(fmt::format("optimizer: {} gradients given; accepted: {}, one a parameter", gradients.size(), parameters_.size()));
  if (parameters_.empty()) return;
  assume_as_frozen(parameters_[0].value.session());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    if (!parameters_[i].value.wants_gradient()) gradients[i] = {};
    if (!gradients[i] || row_values(gradients[i])) continue;
    if (const Value place = dense_gradient_place(parameters_[i].value); gradients[i].storage() != place.storage())
      gradients[i] = apply(copy_def(), list(std::exchange(gradients[i], {}).detached()), {}, std::span(&place, 1))[0];
  }
}

/// The table of a shard's pages in a step with these gradients, each with its parameter's row of hyperparameters; made anew only where it is
/// another than the last one, null where no parameter in it has a dense gradient.
const Value* Optimizer::pages_for(const Shard& shard, const Values& gradients) const {
  std::vector<std::int32_t> rows;
  const auto is_dense = [&](std::ptrdiff_t p) { return p >= 0 && gradients[at(p)] && !row_values(gradients[at(p)]); };
  for (const std::ptrdiff_t p : shard.parameters) rows.push_back(is_dense(p) ? static_cast<std::int32_t>(p) : -1);
  if (std::ranges::all_of(rows, [](std::int32_t r) { return r < 0; })) return nullptr;
  if (!shard.pages || rows != shard.rows) {
    shard.pages = shard.slab->page_table(rows);
    shard.rows = std::move(rows);
  }
  return &shard.pages;
}

void Optimizer::check_no_decay(std::size_t parameter) const {
  const double decay = hyper_->groups[hyper_->rows[parameter].group].weight_decay.value_or(hyper_->weight_decay);
  if (decay != 0)
    throw UsageError(fmt::format("{}: weight decay {} given for {}, whose gradient is rows; accepted: 0, as of a group of its own", name(), decay,
                                 parameters_[parameter].name));
}

void Optimizer::update_met_rows(const Values& gradients, const Value& hyper) const {
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (row_values(gradients[i])) check_no_decay(i);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const RowValues* rows = row_values(gradients[i]);
    if (!rows) continue;
    if (!updates_rows())
      throw UsageError(fmt::format("{}: the gradient of {} is rows; accepted: a dense one, as to_dense gives, or sgd without momentum, adam or adamw", name(),
                                   parameters_[i].name));
    update_rows({parameters_[i].value, sum_rows(*rows), hyper, static_cast<std::int64_t>(i)}, values_of(std::span(state_).subspan(i * slots(), slots())));
  }
}

/// Dense gradients in their slabs, and those that are rows.
struct Optimizer::Settled {
  std::vector<SlabGradients> slabs;
  Values rows;
};
Optimizer::Settled Optimizer::settled(Values& gradients) const {
  settle(gradients);
  Settled out{{}, Values(gradients.size())};
  for (const Shard& s : shards_)
    if (const Value* pages = pages_for(s, gradients)) out.slabs.push_back({s.slab->gradients().whole(), *pages});
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (row_values(gradients[i])) out.rows[i] = gradients[i];
  return out;
}

Value Optimizer::squares(Values& gradients) {
  const Settled all = settled(gradients);
  return gradient_squares(all.rows, all.slabs);
}

Value Optimizer::clip_norm(Values& gradients, double max_norm, const Value& squares) {
  Settled all = settled(gradients);
  Clipped clipped = clip_grad_norm(std::move(all.rows), max_norm, all.slabs, squares);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (clipped.gradients[i]) gradients[i] = std::move(clipped.gradients[i]);
  return clipped.norm;
}

void Optimizer::apply_updates(Values gradients, const Values& hyper) {
  if (hyper.size() != 1) throw UsageError(fmt::format("optimizer: {} hyperparameter tensors given; accepted: 1", hyper.size()));
  if (hyper[0].session().capturing() && hyper[0].storage()->memory)
    throw UsageError(
        "optimizer: the rate and the count of steps would be constants of the graph that is captured, the same at each of its runs; accepted: "
        "apply_updates with hyperparameters that are an input of the captured function, given as hyper(rate)[0] at each call, and advance() after "
        "it; or step() with the gradients that the function returns");
  settle(gradients);
  update_met_rows(gradients, hyper[0]);  // first: it may refuse, and then nothing is written
  for (const Shard& s : shards_)
    if (const Value* pages = pages_for(s, gradients)) update({s.slab->parameters().whole(), s.slab->gradients().whole(), hyper[0], *pages}, s.slots);
  std::vector<bool>& had = had_gradient_[hyper_->frozen()];
  had.clear();
  for (const Value& g : gradients) had.push_back(static_cast<bool>(g));
}

void Optimizer::advance() {
  if (!parameters_.empty() && parameters_[0].value.session().capturing())
    throw UsageError("optimizer: advance() would count one step where a graph is captured and none at its runs; accepted: after each run");
  const auto found = had_gradient_.find(hyper_->frozen());
  hyper_->count(found == had_gradient_.end() ? std::vector<bool>(parameters_.size(), true) : found->second);
}

void Optimizer::assume_as_frozen(Session& session) const {
  if (!session.capturing()) return;
  session.trace().assume([hyper = std::weak_ptr(hyper_), frozen = hyper_->frozen()] {
    const auto now = hyper.lock();
    return !now || now->frozen() == frozen;
  });
}

void Optimizer::step(Values gradients, double rate) {
  if (parameters_.empty()) return advance();  // as that of a stage without parameters
  apply_updates(std::move(gradients), hyper(rate));
  advance();
}

void Optimizer::step() {
  Values gradients;
  for (const NamedValue& p : parameters_) gradients.push_back(p.value.node()->accumulated);
  step(std::move(gradients), rate());
}

void Optimizer::zero_grad() {
  for (const NamedValue& p : parameters_) p.value.node()->accumulated = {};
}

void Optimizer::load_state(std::span<const NamedValue> state, std::int64_t steps, std::span<const std::int64_t> parameter_steps) {
  std::map<std::string_view, const Value*> given;
  for (const NamedValue& s : state) given[s.name] = &s.value;
  std::vector<std::pair<const Value*, const Value*>> copies;  // slot, its new contents
  std::string wrong;
  for (const NamedValue& slot : state_) {
    const auto it = given.find(slot.name);
    if (it == given.end()) {
      wrong += "; " + slot.name + " is missing";
      continue;
    }
    if (it->second->spec() != slot.value.spec())
      wrong += fmt::format("; {} is {}, accepted: {}", slot.name, to_string(it->second->spec()), to_string(slot.value.spec()));
    copies.emplace_back(&slot.value, it->second);
    given.erase(it);
  }
  for (const auto& [name, value] : given) wrong += fmt::format("; {} is unknown", name);
  if (!parameter_steps.empty() && parameter_steps.size() != parameters_.size())
    wrong += fmt::format("; {} counts of steps are given, accepted: {}", parameter_steps.size(), parameters_.size());
  if (!wrong.empty()) throw DataError("optimizer state: it does not fit" + wrong);
  for (const auto& [slot, contents] : copies) assign(*slot, *contents);
  hyper_->steps = steps;
  for (std::size_t i = 0; i < parameters_.size(); ++i) hyper_->rows[i].steps = parameter_steps.empty() ? steps : parameter_steps[i];
}

Sgd::Sgd(std::vector<Group> groups, const SgdOptions& options)
    : Optimizer(std::move(groups), {.rate = options.rate, .weight_decay = options.weight_decay},
                options.momentum != 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>{}),
      options_(options) {
  if (options.nesterov && options.momentum <= 0) throw UsageError(fmt::format("sgd: Nesterov's momentum is {}; accepted: above 0", options.momentum));
}

void Sgd::update(Update u, std::span<const Slab> slots) const {
  if (options_.momentum == 0) return sgd_update(std::move(u));
  momentum_update(std::move(u), slots[0].whole(), options_.momentum, options_.nesterov);
}

void Sgd::update_rows(RowUpdate u, std::span<const Value>) const { sgd_rows_update(std::move(u)); }

}  // namespace gemel::optim
