#include "engine/gradients/gradient_complete.h"

#include <utility>

#include "engine/base/numbers.h"
#include "engine/core/trace.h"
#include "engine/gradients/row_gradient.h"

namespace gemel {
namespace {

/// @param in  the gradient, or its values and indices where it is rows of a table
void execute(Interpreter&, const Attributes& a, std::span<const Value> in, std::span<const Value>) {
  const auto& observer = static_cast<const GradientObserver&>(*a.state("observer"));
  const bool by_rows = in.size() == 2;
  observer.ready(at(a.integer("index")), by_rows ? table_of({in[1], in[0]}, f32({a.integer("rows"), in[0].shape()[1]})) : in[0]);
}

}  // namespace

const OpDef& gradient_complete_def() {
  static const OpDef def{
      .name = "gradient_complete",
      .doc = "Tells an observer that a gradient is complete.",
      .inputs = {"gradient", "indices..."},
      .outputs = {},
      .attributes = {{"observer", Type::state, "whom to tell"},
                     {"index", Type::integer, "which of the gradients that were asked for"},
                     {"rows", Type::integer, "of the table, where the gradient is the values of some of its rows"}},
      .infer = [](const Specs&, const Attributes&) { return Specs{}; },
      .cost = [](const Problem&) { return Cost{}; },
      .writes = {0},
      .execute = execute,
  };
  return def;
}

void gradient_complete(const Value& gradient, std::shared_ptr<GradientObserver> observer, std::size_t index) {
  const RowValues* rows = row_values(gradient);
  apply(gradient_complete_def(), rows ? list(rows->values, rows->indices) : list(gradient),
        {{"observer", std::shared_ptr<State>(std::move(observer))}, {"index", static_cast<std::int64_t>(index)}, {"rows", rows ? gradient.shape()[0] : 0}});
}

}  // namespace gemel
