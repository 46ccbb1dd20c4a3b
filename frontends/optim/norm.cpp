#include "frontends/optim/norm.h"

#include "engine/ops/ops.h"
#include "engine/rows.h"

namespace gemel::optim {
namespace {
constexpr double kNormEps = 1e-6;  // PyTorch's
}  // namespace

Value squared_norm(const Value& gradient) {
  const RowValues* rows = row_values(gradient);
  return sum(square(rows ? sum_rows(*rows).values : gradient));
}

Value clip_factor(const Value& norm, double max_norm) {
  const Value one = full(norm.session(), norm.spec(), 1);
  return minimum(one, full(norm.session(), norm.spec(), max_norm) / (norm + kNormEps));
}

Value scaled(Value gradient, const Value& factor) {
  if (const RowValues* rows = row_values(gradient)) return table_of({rows->indices, multiply(rows->values, factor)}, gradient.spec());
  return multiply(std::move(gradient), factor);
}

}  // namespace gemel::optim
