// Reduces the row gradients of a step: ranks exchange their rows and sum them in the gradient's place.
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/ops.h"
#include "parallel/ddp/reducer.h"
#include "parallel/ddp/stream_ordered.h"

namespace gemel::parallel {

void execute_join_rows(Reducer& reducer, RowsInStep rows) { reducer.rows_.push_back(std::move(rows)); }

namespace {

/// In no catalog: a State stays in its process.
const OpDef& join_rows_def() {
  static const OpDef def{
      .name = "join_rows",
      .doc = "What is enqueued behind the join_gradients that follows sees a table that is the sum of the rows of all ranks.",
      .inputs = {"indices", "values", "table"},
      .outputs = {"met"},
      .attributes = {{"reducer", Type::state, "which sums them"},
                     {"parameter", Type::integer, "whose gradient it is"},
                     {"all", Type::boolean, "whether the table holds this rank's gradient"},
                     {"tells", Type::boolean, "which rows are met"}},
      .infer = [](const Specs& in, const Attributes& a) { return a.boolean("tells") ? Specs{i64({in[2].shape[0]})} : Specs{}; },
      .cost = [](const Problem&) { return Cost{}; },
      .writes = {2},
      .execute =
          [](Interpreter&, const Attributes& a, std::span<const Value> in, std::span<const Value> out) {
            execute_join_rows(static_cast<Reducer&>(*a.state("reducer")),
                              {at(a.integer("parameter")), in[0], in[1], in[2], out.empty() ? Value() : out[0], a.boolean("all")});
          },
  };
  return def;
}

template <class T>
std::vector<T> numbers_of(const Value& value, const Event& computed) {
  const HostView view = map(value, Access::read, computed);
  const auto bytes = view.bytes();
  const auto* const first = reinterpret_cast<const T*>(bytes.data());
  return {first, first + value.elements()};
}

std::vector<std::int64_t> indices_of(const Value& value, const Event& computed) {
  if (value.dtype() == DType::int64) return numbers_of<std::int64_t>(value, computed);
  const std::vector<std::int32_t> narrow = numbers_of<std::int32_t>(value, computed);
  return {narrow.begin(), narrow.end()};
}

void fill(const Value& value, std::span<const std::int64_t> numbers, const Event& computed) {
  HostView view = map(value, Access::write, computed);
  std::ranges::copy(std::as_bytes(numbers), view.bytes().begin());
  view.release().wait();
}

}  // namespace

/// Rows of none at all are given by a rank that has no gradient.
/// @param given  gets what is read once the step ends
Value Reducer::join_rows(std::size_t parameter, Value gradient, Values& given) {
  const Value& leaf = values_[parameter];
  const Value place = dense_gradient_place(leaf);
  const RowValues* rows = row_values(gradient);
  const bool all = gradient && (!rows || rows->whole), moves_rows = leaf.node()->gradient_form == GradientForm::rows;
  if (all) {
    const Value table = to_dense(gradient);
    if (table.storage() != place.storage()) apply(copy_def(), list(table), {}, std::span(&place, 1));
  }
  const bool gives_rows = rows && !all;
  const Value indices = gives_rows ? rows->indices : full(session_, i64({0}), 0),
              values = gives_rows ? rows->values : full(session_, f32({0, leaf.shape()[1]}), 0);
  given.insert(given.end(), {indices, values});
  const Values met = apply(
      join_rows_def(), list(indices, values, place),
      {{"reducer", std::shared_ptr<State>(shared_from_this())}, {"parameter", static_cast<std::int64_t>(parameter)}, {"all", all}, {"tells", moves_rows}});
  return moves_rows ? table_of({met[0], place, true}, leaf.spec()) : place;
}

void Reducer::sum_rows(RowsInStep rows) {
  submit_stream_ordered(session_, communication_, [self = shared_from_this(), rows = std::move(rows)](Collectives& all_ranks, const Event& computed) {
    const std::size_t parameter = rows.parameter;
    const CommunicationThread::Doing doing(self->communication_, "the gradient of " + self->name_of(parameter));
    computed.wait();
    const std::int64_t begin = steady_ns();
    RowsGiven mine{.all = rows.all};
    if (!rows.all && rows.values.elements() > 0) mine = {indices_of(rows.indices, computed), numbers_of<float>(rows.values, computed)};
    View opened = self->open(gradient_range(self->values_[parameter], self->slabs_), computed, rows.all ? Access::read_write : Access::write);
    const Shape& shape = rows.table.shape();
    const std::span<float> table = opened.gradients.first(at(rows.table.elements()));
    std::ranges::fill(opened.gradients.subspan(table.size()), 0.0f);  // the last page's padding
    if (self->options_.check_finite) self->check_finite(parameter, rows.all ? std::span<const float>(table) : mine.values);
    const std::vector<std::int64_t> met = sum_over_ranks(self->group(all_ranks), mine, {table, shape[0], shape[1]});
    opened.view.release().wait();
    if (rows.met) fill(rows.met, met, computed);
    if (self->options_.keeps_spans) self->add_span("rows of " + self->name_of(parameter), begin, std::ssize(mine.values) * std::int64_t{sizeof(float)});
    self->add_exposed(1e-9 * static_cast<double>(steady_ns() - begin));
  });
}

}  // namespace gemel::parallel
