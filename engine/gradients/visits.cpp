#include "engine/gradients/visits.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/row_gradient.h"

namespace gemel {

const Storage* numbers_of(const Value& gradient) {
  const RowValues* rows = row_values(gradient);
  return rows ? rows->values.storage().get() : gradient.storage().get();
}

void Visits::accumulate(const Value& edge, Visit& from, Value more) {
  Value& sum = from.gradients[at(edge.output())];
  leave(sum);
  gemel::accumulate(sum, std::move(more));
  enter(sum);
}

void Visits::replace(Value& gradient, Value by) {
  leave(gradient);
  gradient = std::move(by);
  enter(gradient);
}

Value Visits::take(Value& gradient) {
  leave(gradient);
  return std::exchange(gradient, {});
}

Visit Visits::take_latest() {
  Visit visit = std::move(map_.begin()->second);
  map_.erase(map_.begin());
  for (const Value& g : visit.gradients) leave(g);
  return visit;
}

void Visits::enter(const Value& g) {
  if (g) ++held_[numbers_of(g)];
}

void Visits::leave(const Value& g) {
  if (!g) return;
  const auto it = held_.find(numbers_of(g));
  if (--it->second == 0) held_.erase(it);
}

Visits reach(const Values& outputs) {
  Visits reached;
  auto& visits = reached.map();
  std::vector<std::shared_ptr<Node>> open;
  for (const Value& v : outputs)
    if (v.node()) open.push_back(v.node());
  while (!open.empty()) {
    auto node = std::move(open.back());
    open.pop_back();
    auto [it, is_new] = visits.try_emplace(node->order);
    if (!is_new) continue;
    if (node->released)
      throw UsageError(node->op->name + ": " +
                       (node->refusal ? node->refusal : "its history was released by an earlier backward pass; accepted: retain it in that pass"));
    const std::size_t outs = node->op ? node->outputs.size() : 1;
    it->second.gradients.resize(outs);
    it->second.hooked.resize(outs);
    for (const auto& s : node->inputs)
      if (s.value.node()) open.push_back(s.value.node());
    it->second.node = std::move(node);
  }
  return reached;
}

}  // namespace gemel
