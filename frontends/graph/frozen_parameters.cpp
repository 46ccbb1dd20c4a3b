#include "frontends/graph/frozen_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/parameters/parameter_slab.h"

namespace gemel::graph {
namespace {

/// Trained parameters that are frozen now.
Values frozen_parameters(const Graph& graph) {
  Values out;
  for (const auto& [name, training] : graph.trainings())
    for (std::size_t i = 0; i < training.gradients.size(); ++i)
      if (const Value& p = training.hyperparameters->rows[i].parameter; p && !p.wants_gradient() && training.gradients[i] == Graph::Gradient::given)
        out.push_back(p);
  return out;
}

/// The table of a slab's pages, where it is among what an instruction reads. @return its slot; -1: none
int page_table_of(const Program& program, const Program::Instruction& step, const Storage& slab) {
  const Spec spec = i32({slab.elements / Slab::kPageElements, 2});
  for (const auto& u : step.inputs)
    if (u.spec == spec && program.slots[at(u.slot)].external) return u.slot;
  return -1;
}

}  // namespace

std::string frozen_signature(const Graph& graph) {
  std::string out;
  for (const Value& p : frozen_parameters(graph)) out += fmt::format("frozen {};", p.node()->order);
  return out;
}

std::vector<int> updates_of_frozen(const Graph& graph) {
  const Values frozen = frozen_parameters(graph);
  const Program& program = graph.program();
  const auto is_frozen = [&](const Program::Use& u) {
    return std::ranges::any_of(frozen, [&](const Value& p) { return p.storage() == program.slots[at(u.slot)].external; });
  };
  std::vector<int> out;
  if (frozen.empty()) return out;
  for (const auto& [name, training] : graph.trainings())
    for (const int i : graph.operation(name).instructions) {
      const auto& step = program.code[at(i)];
      if (std::ranges::any_of(step.op->writes, [&](int w) { return is_frozen(step.inputs[at(w)]); })) out.push_back(i);
    }
  return out;
}

void skip_frozen(const Graph& graph, Program& program) {
  for (const Value& p : frozen_parameters(graph)) {
    const auto& slab = p.storage()->whole;
    for (const auto& step : program.code) {
      if (step.op->writes.empty() || program.slots[at(step.inputs[0].slot)].external != slab) continue;
      const int table = page_table_of(program, step, *slab);
      if (table < 0) continue;
      auto& slot = program.slots[at(table)];
      std::vector<std::byte> rows = read_bytes(Value(slot.spec, slot.external));
      const std::int64_t first = p.storage()->first / Slab::kPageElements;
      for (std::int64_t page = first; page < first + Slab::pages_for(p.spec()); ++page) {
        constexpr std::int32_t none = -1;
        std::memcpy(rows.data() + 2 * page * std::int64_t{sizeof none}, &none, sizeof none);
      }
      slot.external = graph.session().tensor(slot.spec, rows).storage();
    }
  }
}

void check_not_thawed(const std::string& operation, const Graph::Training& training) {
  for (std::size_t i = 0; i < training.gradients.size(); ++i) {
    const Graph::Gradient gradient = training.gradients[i];
    if (gradient != Graph::Gradient::frozen || !training.hyperparameters->rows[i].parameter.wants_gradient()) continue;
    throw UsageError(
        fmt::format("run: {} was frozen when '{}' was added and is no longer, the graph has no gradient for it; accepted: frozen as it was, or a new graph",
                    training.names[i], operation));
  }
}

}  // namespace gemel::graph
