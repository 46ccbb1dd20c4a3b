#include "engine/ops/attention/score_matrices.h"

#include <cmath>
#include <numeric>

#include "engine/core/session.h"
#include "engine/ops/catalog.h"

namespace gemel {

Value by_head(const Value& x) { return transpose(cast(x, DType::float32), {0, 2, 1, 3}); }
Value by_query(const Value& x, DType dtype) { return cast(transpose(x, {0, 2, 1, 3}), dtype); }

ScoreMatrices::ScoreMatrices(const Values& in, const Attributes& a)
    : sizes(attention_sizes(in[0].shape(), in[2].shape())),
      scale(a.real("scale")),
      q(by_head(in[0])),
      k(by_head(in[1])),
      v(by_head(in[2])),
      scores(masked(add(product_with_turned(q, k) * scale, in[3]), a.boolean("causal"))),
      state_(in.size() > 4 ? in[4] : Value()),
      rate_(a.real("rate")),
      stream_(a.integer("stream")) {}

Value ScoreMatrices::number(double x) const { return full(q.session(), f32({}), x); }

Value ScoreMatrices::masked(Value x, bool causal) const {
  if (!causal) return x;
  std::vector<double> keys(at(sizes.keys)), last(at(sizes.queries));  // the last key that each query sees
  std::iota(keys.begin(), keys.end(), 0.0);
  std::iota(last.begin(), last.end(), static_cast<double>(sizes.keys - sizes.queries));
  const auto tensor = [&](const Spec& spec, const std::vector<double>& numbers) { return q.session().tensor(spec, std::span<const double>(numbers)); };
  return where(less_equal(tensor(i64({1, sizes.keys}), keys), tensor(i64({sizes.queries, 1}), last)), std::move(x), number(-INFINITY));
}

Value ScoreMatrices::column(const Value& x) const { return reshape(transpose(x, {0, 2, 1}), Shape{sizes.samples, sizes.heads, sizes.queries, 1}); }
Value ScoreMatrices::statistic(const Value& column) const { return transpose(reshape(column, Shape{sizes.samples, sizes.heads, sizes.queries}), {0, 2, 1}); }

Value ScoreMatrices::weights(const Value& top, const Value& log_sum) const { return exp(scores - column(top) - column(log_sum)); }

Value ScoreMatrices::kept(Value x) const {
  if (!state_) return x;
  return apply(attention_dropout_def(), list(std::move(x), state_), {{"rate", rate_}, {"stream", stream_}})[0];
}

Value ScoreMatrices::largest() const {
  const Value best = cast(logical_and(equal(scores, max(scores, {3}, Keep::yes)), is_finite(scores)), DType::float32);
  return best / maximum(sum(best, {3}, Keep::yes), number(1));
}

Values composed_attention(const Values& in, const Attributes& a) {
  const ScoreMatrices m(in, a);
  if (m.sizes.keys == 0) {
    const auto zeros = [&](const Spec& spec) { return full(in[0].session(), spec, 0); };
    const Spec statistic{m.sizes.statistic(), DType::float32};
    return {zeros({Shape{m.sizes.samples, m.sizes.queries, m.sizes.heads, m.sizes.value}, in[0].dtype()}), zeros(statistic), zeros(statistic)};
  }
  const Value highest = max(m.scores, {3}, Keep::yes), sees_any = greater(highest, m.number(-INFINITY));
  const Value top = where(sees_any, highest, m.number(0)), powers = exp(m.scores - top), total = where(sees_any, row_sums(powers), m.number(1));
  return {by_query(matmul(m.kept(powers / total), m.v), in[0].dtype()), m.statistic(top), m.statistic(log(total))};
}

Values composed_attention_backward(const Values& in, const Attributes& a) {
  Values of_forward(in.begin() + 1, in.begin() + 5);
  of_forward.insert(of_forward.end(), in.begin() + kBackwardInputs.state, in.end());
  const ScoreMatrices m(of_forward, a);
  const Value dy = by_head(in[0]), p = m.weights(in[6], in[7]);
  const Value slope = p * (m.kept(product_with_turned(dy, m.v)) - row_sums(dy * by_head(in[5])));
  return {by_query(matmul(slope, m.k) * m.scale, in[1].dtype()), by_query(turned_product(slope, m.q) * m.scale, in[2].dtype()),
          by_query(turned_product(m.kept(p), dy), in[3].dtype())};
}

}  // namespace gemel
