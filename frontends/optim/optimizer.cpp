#include "frontends/optim/optimizer.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/span.h"

namespace gemel::optim {
namespace {

Value zeros_like(const Value& parameter) {
  Session& session = parameter.session();
  const TraceScope computing(session, session.interpreter());  // state has memory also where it is made while capturing
  return full(session, parameter.spec(), 0);
}

void check_once(const std::vector<NamedValue>& parameters) {
  std::set<std::string_view> seen;
  for (const NamedValue& p : parameters)
    if (!seen.insert(p.name).second) throw UsageError("optimizer: " + p.name + " is in two groups; accepted: each parameter once");
}

}  // namespace

std::vector<Group> all_in_one(const ParameterSet& parameters) { return {{parameters.trainable()}}; }

std::vector<Group> no_decay_on_vectors(const ParameterSet& parameters) {
  std::vector<Group> groups(2);
  groups[1].weight_decay = 0;
  for (NamedValue& p : parameters.trainable()) groups[p.value.shape().rank() >= 2 ? 0 : 1].parameters.push_back(std::move(p));
  return groups;
}

Optimizer::Optimizer(std::vector<Group> groups, double weight_decay, std::vector<std::string> slots)
    : groups_(std::move(groups)), weight_decay_(weight_decay) {
  for (const Group& g : groups_) parameters_.insert(parameters_.end(), g.parameters.begin(), g.parameters.end());
  if (parameters_.empty()) throw UsageError("optimizer: no trainable parameter given; accepted: at least one");
  check_once(parameters_);
  for (const NamedValue& p : parameters_) {
    slots_.emplace_back();
    for (const std::string& slot : slots) {
      slots_.back().push_back(zeros_like(p.value));
      state_.push_back({slot + "." + p.name, slots_.back().back()});
    }
  }
}

std::vector<float> Optimizer::hyper_numbers(std::size_t group, double rate, std::int64_t) const {
  return {static_cast<float>(rate * groups_.at(group).rate_factor)};
}

Specs Optimizer::hyper_specs() const {
  Specs specs;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    specs.push_back(f32({static_cast<std::int64_t>(hyper_numbers(g, 0, 1).size())}));
  return specs;
}

Values Optimizer::hyper(double rate) const {
  Values out;
  const Specs specs = hyper_specs();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<float> numbers = hyper_numbers(g, rate, steps_ + 1);
    out.push_back(parameters_[0].value.session().tensor(specs[g], bytes_of(std::span<const float>(numbers))));
  }
  return out;
}

void Optimizer::apply_updates(Values gradients, const Values& hyper) {
  if (gradients.size() != parameters_.size() || hyper.size() != groups_.size())
    throw UsageError(fmt::format("optimizer: {} gradients and {} hyperparameter tensors given; accepted: {} and {}, one a parameter "
                                 "and one a group", gradients.size(), hyper.size(), parameters_.size(), groups_.size()));
  std::size_t i = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    for (std::size_t k = 0; k < groups_[g].parameters.size(); ++k, ++i) {
      if (!gradients[i]) continue;
      const Value gradient = std::exchange(gradients[i], {});
      update({parameters_[i].value.detached(), gradient.detached(), slots_[i].data(), hyper[g],
              groups_[g].weight_decay.value_or(weight_decay_)});
    }
}

void Optimizer::step(Values gradients, double rate) {
  apply_updates(std::move(gradients), hyper(rate));
  advance();
}

void Optimizer::load_state(std::span<const NamedValue> state, std::int64_t steps) {
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
  if (!wrong.empty()) throw DataError("optimizer state: it does not fit" + wrong);
  for (const auto& [slot, contents] : copies) assign(*slot, *contents);
  steps_ = steps;
}

Sgd::Sgd(std::vector<Group> groups, const SgdOptions& options)
    : Optimizer(std::move(groups), options.weight_decay,
                options.momentum != 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>{}),
      options_(options) {
  if (options.nesterov && options.momentum <= 0)
    throw UsageError(fmt::format("sgd: Nesterov's momentum is {}; accepted: above 0", options.momentum));
}

void Sgd::update(Update u) const {
  if (options_.momentum == 0) return sgd_update(u.parameter, std::move(u.gradient), u.hyper, u.weight_decay);
  momentum_update(u.parameter, u.slots[0], std::move(u.gradient), u.hyper, options_.momentum, u.weight_decay, options_.nesterov);
}

}  // namespace gemel::optim
