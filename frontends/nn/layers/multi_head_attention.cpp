#include "frontends/nn/layers/multi_head_attention.h"

#include <fmt/format.h>

#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"

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
  Value query = by_head(std::move(in.query), "query", heads), key = by_head(std::move(in.key), "key", heads),
        value = by_head(std::move(in.value), "value", heads);
  Value y = gemel::attention(std::move(query), std::move(key), std::move(value), {.bias = std::move(in.bias), .causal = causal, .dropout = dropout});
  const Shape shape = y.shape();
  return reshape(std::move(y), Shape{shape[0], shape[1], shape[2] * shape[3]});
}

namespace {

/// 0 where the condition holds, and where it does not a large negative number, of which exp gives 0, beside any score.
Value bias_where(Value condition) {
  constexpr double kNever = -1e30;
  Session& session = condition.session();
  return where(std::move(condition), full(session, f32({}), 0), full(session, f32({}), kNever));
}

}  // namespace

Value padding_bias(const Value& ids, std::int64_t padding) {
  const Shape shape{ids.shape()[0], 1, 1, ids.shape()[1]};
  return reshape(bias_where(not_equal(ids, full(ids.session(), {Shape{}, ids.dtype()}, static_cast<double>(padding)))), shape);
}

Value places(Session& session, std::int64_t n) {
  std::vector<std::int64_t> numbers(at(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return session.tensor(i64({n}), std::as_bytes(std::span(numbers)));
}

Value causal_bias(const Value& query_places, std::int64_t keys) {
  const std::int64_t queries = query_places.elements();
  return reshape(bias_where(less_equal(places(query_places.session(), keys), reshape(query_places, Shape{queries, 1}))), Shape{1, 1, queries, keys});
}

}  // namespace gemel::nn
