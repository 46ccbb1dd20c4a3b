#include "engine/parameters/parameter_set.h"

#include <set>
#include <utility>

#include "engine/base/error.h"

namespace gemel {

namespace {
/// Each tensor once, under the first of its names.
std::vector<NamedValue> distinct(const std::vector<NamedValue>& named) {
  std::vector<NamedValue> out;
  std::set<const Node*> seen;
  for (const NamedValue& n : named)
    if (!n.value.node() || seen.insert(n.value.node().get()).second) out.push_back(n);
  return out;
}
}  // namespace

void ParameterSet::claim(const std::string& name, Place place) {
  if (!places_.emplace(name, place).second) throw UsageError("parameter set: " + name + " is given twice; accepted: one value a name");
}

void ParameterSet::add_parameter(std::string name, Value value) {
  claim(name, {false, parameters_.size()});
  parameters_.push_back({std::move(name), std::move(value)});
}

void ParameterSet::add_buffer(std::string name, Value value) {
  if (value.wants_gradient()) throw UsageError("parameter set: buffer " + name + " wants a gradient; accepted: a detached value");
  claim(name, {true, buffers_.size()});
  buffers_.push_back({std::move(name), std::move(value)});
}

std::vector<NamedValue> ParameterSet::trainable() const {
  std::vector<NamedValue> out;
  for (const NamedValue& p : distinct(parameters_))
    if (p.value.wants_gradient()) out.push_back(p);
  return out;
}

const Value* ParameterSet::find(std::string_view name) const& {
  const auto it = places_.find(name);
  if (it == places_.end()) return nullptr;
  return &(it->second.is_buffer ? buffers_ : parameters_)[it->second.index].value;
}

std::optional<Value> ParameterSet::find(std::string_view name) && {
  const Value* const found = std::as_const(*this).find(name);
  return found ? std::optional(*found) : std::nullopt;
}

std::int64_t ParameterSet::parameter_elements() const {
  std::int64_t total = 0;
  for (const NamedValue& p : distinct(parameters_)) total += p.value.elements();
  return total;
}

std::int64_t ParameterSet::bytes() const {
  std::int64_t total = 0;
  for (const NamedValue& p : distinct(parameters_)) total += p.value.spec().bytes();
  for (const NamedValue& b : buffers_) total += b.value.spec().bytes();
  return total;
}

Values values_of(std::span<const NamedValue> named) {
  Values out;
  out.reserve(named.size());
  for (const NamedValue& n : named) out.push_back(n.value);
  return out;
}

}  // namespace gemel
