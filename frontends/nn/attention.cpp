#include "frontends/nn/attention.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/error.h"

namespace gemel::nn {
namespace {

/// [N, T, D] as [N, T, H, D / H].
Value by_head(Value x, const char* name, std::int64_t heads) {
  const Shape shape = x.shape();
  if (shape.rank() != 3 || heads < 1 || shape[2] % heads != 0)
    throw ShapeError(fmt::format("attention: {} heads share a {} {}; accepted: [N, T, D], of a width that they divide", heads, name, to_string(shape)));
  return reshape(std::move(x), Shape{shape[0], shape[1], heads, shape[2] / heads});
}

}  // namespace

Value attention(AttentionInputs in, std::int64_t heads, double dropout, Causal causal) {
  Value query = by_head(std::move(in.query), "query", heads), key = by_head(std::move(in.key), "key", heads), value = by_head(std::move(in.value), "value", heads);
  Value y = gemel::attention(std::move(query), std::move(key), std::move(value), {.bias = std::move(in.bias), .causal = causal, .dropout = dropout});
  const Shape shape = y.shape();
  return reshape(std::move(y), Shape{shape[0], shape[1], shape[2] * shape[3]});
}

Value padding_bias(const Value& ids, std::int64_t padding) {
  constexpr double kNever = -1e30;  // of which exp gives 0, beside any score
  Session& session = ids.session();
  const Shape shape{ids.shape()[0], 1, 1, ids.shape()[1]};
  const auto number = [&](double value) { return full(session, {Shape{}, DType::float32}, value); };
  return reshape(where(equal(ids, full(session, {Shape{}, ids.dtype()}, static_cast<double>(padding))), number(kNever), number(0)), shape);
}

}  // namespace gemel::nn
