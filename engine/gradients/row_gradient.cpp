#include "engine/gradients/row_gradient.h"

#include "engine/base/error.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

Value joined(const Value& a, const Value& b) { return concatenate(list(a, b), 0); }

/// Indices of two lookups, which may differ in type.
Value joined_indices(const Value& a, const Value& b) { return a.dtype() == b.dtype() ? joined(a, b) : joined(cast(a, DType::int64), cast(b, DType::int64)); }

}  // namespace

Value table_of(RowValues rows, const Spec& table) {
  auto storage = std::make_shared<Storage>(rows.values.session(), table.elements());
  storage->rows = std::make_shared<const RowValues>(std::move(rows));
  return {table, std::move(storage)};
}

const RowValues* row_values(const Value& value) { return value.storage() ? value.storage()->rows.get() : nullptr; }

Value to_dense(Value value, const Value& into) {
  const RowValues* rows = row_values(value);
  if (rows && rows->whole) return rows->values;
  return rows ? gather_gradient(rows->values, rows->indices, value.shape(), 0, into) : std::move(value);
}

void refuse_rows(const std::string& who, const Value& value) {
  if (row_values(value)) throw UsageError(who + " is rows of " + to_string(value.spec()) + "; accepted: a dense tensor, as to_dense gives");
}

void accumulate(Value& sum, Value more) {
  const RowValues *a = row_values(sum), *b = row_values(more);
  if (!sum)
    sum = std::move(more);
  else if (a && b && !a->whole && !b->whole)
    sum = table_of({joined_indices(a->indices, b->indices), joined(a->values, b->values)}, sum.spec());
  else if (a || b)
    sum = add(to_dense(sum), to_dense(std::move(more)));
  else
    sum = add(std::move(sum), std::move(more));
}

}  // namespace gemel
