#include "frontends/nn/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/ops/ops.h"

namespace gemel::nn {
namespace {

/// [N, T, D] as [N, H, T, D / H].
Value by_head(Value x, std::int64_t heads) {
  const Shape shape = x.shape();
  return transpose(reshape(std::move(x), Shape{shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

}  // namespace

Value attention(AttentionInputs in, std::int64_t heads, double dropout) {
  const Shape shape = in.query.shape();
  if (shape.rank() != 3 || heads < 1 || shape[2] % heads != 0)
    throw ShapeError(fmt::format("attention: {} heads share a query {}; accepted: [N, T, D], of a width that they divide", heads, to_string(shape)));
  const double scale = 1 / std::sqrt(static_cast<double>(shape[2] / heads));
  Value scores = matmul(by_head(std::move(in.query), heads) * scale, by_head(std::move(in.key), heads), Transpose::no, Transpose::yes);
  if (in.bias) scores = std::move(scores) + std::move(in.bias);
  Value weights = softmax(std::move(scores));
  if (dropout > 0) weights = gemel::dropout(std::move(weights), dropout);
  return reshape(transpose(matmul(std::move(weights), by_head(std::move(in.value), heads)), {0, 2, 1, 3}), shape);
}

Value padding_bias(const Value& ids, std::int64_t padding) {
  constexpr double kNever = -1e30;  // of which exp gives 0, beside any score
  Session& session = ids.session();
  const Shape shape{ids.shape()[0], 1, 1, ids.shape()[1]};
  const auto number = [&](double value) { return full(session, {Shape{}, DType::float32}, value); };
  return reshape(where(equal(ids, full(session, {Shape{}, ids.dtype()}, static_cast<double>(padding))), number(kNever), number(0)), shape);
}

}  // namespace gemel::nn
