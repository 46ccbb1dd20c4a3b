// replay: applies a program under the trace in force.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/graph/capture/program.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

/// What the slots hold, for as long as something is to come that uses it.
class Held {
 public:
  explicit Held(const Program& program) : uses_(program.slots.size(), 0), forms_(program.slots.size()) {
    for (const auto& step : program.code)
      for (const auto& u : step.inputs) ++uses_[at(u.slot)];
    for (const auto& u : program.outputs) ++uses_[at(u.slot)];
  }

  void put(int slot, Value value) {
    if (uses_[at(slot)] > 0) forms_[at(slot)] = list(std::move(value));
  }
  /// The last use gets the handle itself: what it is applied to may take over its memory.
  Value see(const Program::Use& u) {
    Values& forms = forms_[at(u.slot)];
    auto found = std::ranges::find_if(forms, [&](const Value& v) { return v.shape() == u.spec.shape && v.offset() == forms[0].offset() + u.offset; });
    if (found == forms.end()) found = forms.insert(found, formed(forms[0], u));
    const bool is_last = --uses_[at(u.slot)] == 0;
    Value seen = is_last ? std::move(*found) : *found;
    if (is_last) forms.clear();
    return u.tracked ? seen : seen.detached();
  }

 private:
  static Value formed(const Value& v, const Program::Use& u) {
    return u.offset == 0 && u.spec.elements() == v.elements() ? reshape(v, u.spec.shape) : v.view(u.spec, u.offset);
  }

  std::vector<int> uses_;      // [slot] still to come
  std::vector<Values> forms_;  // [slot] as it came, then in each other shape that was seen: one history a shape, as gradients are summed by it
};

}  // namespace

Values replay(Session& session, const Program& program, Values inputs) {
  Held held(program);
  for (std::size_t i = 0; i < program.inputs.size(); ++i) held.put(program.inputs[i].slot, std::move(inputs.at(i)));
  inputs.clear();
  for (const auto& step : program.code) {
    const PathScope path(session, std::make_shared<const std::string>(step.scope));
    Values in;
    for (const auto& u : step.inputs) in.push_back(held.see(u));
    Values out = apply(session, *step.op, std::move(in), step.attributes);
    for (std::size_t o = 0; o < out.size(); ++o) held.put(step.outputs[o].slot, std::move(out[o]));
  }
  Values out;
  for (const auto& u : program.outputs) out.push_back(held.see(u));
  return out;
}

}  // namespace gemel
