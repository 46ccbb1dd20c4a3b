#include "frontends/optim/clip.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/error.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/ops.h"

namespace gemel::optim {
namespace {

constexpr double kNormEps = 1e-6;  // PyTorch's

void check_limit(const char* op, const char* name, double limit) {
  if (!(limit > 0)) throw UsageError(fmt::format("{}: {} {} given; accepted: above 0", op, name, limit));
}

/// Float32 []; of rows, once those of one index are summed.
Value squared_norm(const Value& gradient) {
  const RowValues* rows = row_values(gradient);
  return sum(square(rows ? sum_rows(*rows).values : gradient));
}

/// @param norm  float32 []
Value clip_factor(const Value& norm, double max_norm) {
  const Value one = full(norm.session(), norm.spec(), 1);
  return minimum(one, full(norm.session(), norm.spec(), max_norm) / (norm + kNormEps));
}

Value scaled(Value gradient, const Value& factor) {
  if (const RowValues* rows = row_values(gradient)) return table_of({rows->indices, multiply(rows->values, factor), rows->whole}, gradient.spec());
  return multiply(std::move(gradient), factor);
}

}  // namespace

Value gradient_squares(const Values& gradients, std::span<const SlabGradients> slabs) {
  Values squares;
  for (const SlabGradients& s : slabs) squares.push_back(page_squares(s.whole, s.pages));
  for (const Value& g : gradients)
    if (g) squares.push_back(reshape(squared_norm(g), Shape{1}));
  if (squares.size() < 2) return squares.empty() ? Value() : squares[0];
  return concatenate(squares, 0);
}

Clipped clip_grad_norm(Values gradients, double max_norm, std::span<const SlabGradients> slabs, const Value& squares) {
  check_limit("clip_grad_norm", "max_norm", max_norm);
  const Value all = squares ? squares : gradient_squares(gradients, slabs);
  if (!all) return {std::move(gradients), {}};
  Value norm;
  for (const SlabGradients& s : slabs) norm = clip_pages(s.whole, s.pages, all, max_norm);
  if (!norm) norm = sqrt(sum(all));
  for (Value& g : gradients)
    if (g) g = scaled(std::move(g), clip_factor(norm, max_norm));
  return {std::move(gradients), norm};
}

Values clip_grad_value(Values gradients, double limit) {
  check_limit("clip_grad_value", "limit", limit);
  for (Value& g : gradients)
    if (g) g = clamp(std::move(g), -limit, limit);
  return gradients;
}

}  // namespace gemel::optim
