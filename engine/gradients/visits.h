// Private to engine/gradients: the nodes that a backward pass visits, and the gradients that have arrived at them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/core/trace.h"

namespace gemel {

/// What a gradient's numbers lie in.
const Storage* numbers_of(const Value& gradient);

/// A node of the history, and the gradients of its outputs.
struct Visit {
  std::shared_ptr<Node> node;
  Values gradients;
  std::vector<bool> hooked;
  std::vector<Visit*> from;  // [input] visit of the node that made it, which comes later; null: none did
  bool needed = false;
};

/// Visits to come, the latest node first, and how many of their gradients lie in each storage.
class Visits {
 public:
  using Map = std::map<std::uint64_t, Visit, std::greater<>>;
  Map& map() { return map_; }
  Visit& at_node(const Node& node) { return map_.at(node.order); }

  /// Adds a contribution to the gradient of a node's output. @param from  its visit
  void accumulate(const Value& edge, Visit& from, Value more);
  void replace(Value& gradient, Value by);
  Value take(Value& gradient);
  Visit take_latest();
  bool holds(const Value& gradient) const { return held_.count(numbers_of(gradient)) != 0; }

 private:
  void enter(const Value& g);
  void leave(const Value& g);
  Map map_;
  std::unordered_map<const Storage*, int> held_;
};

/// Visits of all nodes that these lead back to. @throws UsageError where a history was released
Visits reach(const Values& outputs);

}  // namespace gemel
