#include "engine/gradient_complete.h"

#include <utility>

#include "engine/base/span.h"
#include "engine/ops/common.h"

namespace gemel {
namespace {

void execute(Interpreter&, const Attributes& a, std::span<const Value> in, std::span<const Value>) {
  static_cast<const GradientObserver&>(*a.state("observer")).ready(at(a.integer("index")), in[0]);
}

}  // namespace

const OpDef& gradient_complete_def() {
  static const OpDef def{
      .name = "gradient_complete",
      .doc = "Tells an observer that a gradient is complete.",
      .inputs = {"gradient"},
      .outputs = {},
      .attributes = {{"observer", Type::state, "whom to tell"}, {"index", Type::integer, "which of the gradients that were asked for"}},
      .infer = [](const Specs&, const Attributes&) { return Specs{}; },
      .cost = [](const Problem&) { return Cost{}; },
      .writes = {0},
      .execute = execute};
  return def;
}

void gradient_complete(const Value& gradient, std::shared_ptr<GradientObserver> observer, std::size_t index) {
  apply(gradient_complete_def(), list(gradient), {{"observer", std::shared_ptr<State>(std::move(observer))}, {"index", static_cast<std::int64_t>(index)}});
}

}  // namespace gemel
