// Attention's gradients in public operators. The backward record computes what training needs; a gradient for the bias and second derivatives are computed with
// full matrices [N, H, T, S]. Legend: engine/ops/attention/attention_ops.h.
#include <cmath>
#include <numeric>

#include "engine/core/session.h"
#include "engine/ops/attention/attention_ops.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

/// [N, T, H, *] as [N, H, T, *] in float32.
Value by_head(const Value& x) { return transpose(cast(x, DType::float32), {0, 2, 1, 3}); }

/// The whole matrices of one application, in float32.
struct Whole {
  const Backward& b;
  AttentionInputsAt in;
  AttentionSizes sizes = attention_sizes(b.input_shape(in.query), b.input_shape(in.query + 2));
  double scale = b.attributes().real("scale");
  Value q = by_head(b.input(in.query)), k = by_head(b.input(in.query + 1)), v = by_head(b.input(in.query + 2));
  Value scores = masked(add(matmul(q, k, Transpose::no, Transpose::yes) * scale, b.input(in.query + 3)));

  Value number(double x) const { return full(b.session(), f32({}), x); }
  Value masked(Value x) const {
    if (!b.attributes().boolean("causal")) return x;
    std::vector<double> keys(at(sizes.keys)), last(at(sizes.queries));  // the last key that each query sees
    std::iota(keys.begin(), keys.end(), 0.0);
    std::iota(last.begin(), last.end(), static_cast<double>(sizes.keys - sizes.queries));
    const auto tensor = [&](const Spec& spec, const std::vector<double>& numbers) { return b.session().tensor(spec, std::span<const double>(numbers)); };
    return where(less_equal(tensor(i64({1, sizes.keys}), keys), tensor(i64({sizes.queries, 1}), last)), std::move(x), number(-INFINITY));
  }
  /// A matrix [N, H, T, *] as [N, T, H, *] in the type of an input.
  Value like_input(const Value& x, int i) const { return cast(transpose(x, {0, 2, 1, 3}), b.input_spec(i).dtype); }
  /// A number a query [N, T, H] as a column [N, H, T, 1], and back.
  Value column(const Value& x) const { return reshape(transpose(x, {0, 2, 1}), Shape{sizes.samples, sizes.heads, sizes.queries, 1}); }
  Value statistic(const Value& column) const { return transpose(reshape(column, Shape{sizes.samples, sizes.heads, sizes.queries}), {0, 2, 1}); }

  Value weights(const Value& top, const Value& log_sum) const { return exp(scores - column(top) - column(log_sum)); }
  /// What dropout leaves of a matrix.
  Value kept(Value x) const {
    if (in.state >= b.input_count()) return x;
    return apply(attention_dropout_def(), list(std::move(x), b.input(in.state)),
                 {{"rate", b.attributes().real("rate")}, {"stream", b.attributes().integer("stream")}})[0];
  }
  /// 1 at each query's largest score, shared among equal ones, and 0 elsewhere.
  Value largest() const {
    const Value best = cast(logical_and(equal(scores, max(scores, {3}, Keep::yes)), is_finite(scores)), DType::float32);
    return best / maximum(sum(best, {3}, Keep::yes), number(1));
  }
};

Value row_sums(const Value& x) { return sum(x, {3}, Keep::yes); }
Value turned_product(const Value& a, const Value& b) { return matmul(a, b, Transpose::yes); }
Value product_with_turned(const Value& a, const Value& b) { return matmul(a, b, Transpose::no, Transpose::yes); }

/// What the scores' gradient is, where query, key or bias need it beyond what the backward record computes.
void add_by_matrices(const Backward& b, Values& out) {
  if (b.input_shape(1)[1] == 0) return;  // no score, which something could flow to
  const Whole w{b, kForwardInputs};
  const Value weights = w.weights(b.output(1), b.output(2));
  Value d_bias;
  if (b.has_gradient(0) && b.wants(3)) {
    const Value dy = by_head(b.gradient(0)), delta = row_sums(dy * by_head(b.output(0)));
    d_bias = weights * (w.kept(product_with_turned(dy, w.v)) - delta);
  }
  // score -> top + log_sum has the gradient `weights`; top alone follows the largest score.
  Value d_scores;
  if (b.has_gradient(2)) d_scores = weights * w.column(b.gradient(2));
  if (b.has_gradient(1) || b.has_gradient(2)) {
    Value of_top = b.has_gradient(1) ? b.gradient(1) : negate(b.gradient(2));
    if (b.has_gradient(1) && b.has_gradient(2)) of_top = of_top - b.gradient(2);
    accumulate(d_scores, w.largest() * w.column(of_top));
    if (b.wants(0)) accumulate(out[0], w.like_input(matmul(d_scores, w.k) * w.scale, 0));
    if (b.wants(1)) accumulate(out[1], w.like_input(turned_product(d_scores, w.q) * w.scale, 1));
    if (b.wants(3)) accumulate(d_bias, d_scores);
  }
  if (d_bias) out[3] = sum_to(d_bias, b.input_shape(3));
}

}  // namespace

Values attention_gradient(const Backward& b) {
  Values out(at(b.input_count()));
  if (b.has_gradient(0) && (b.wants(0) || b.wants(1) || b.wants(2))) {
    Values in = list(b.gradient(0), b.input(0), b.input(1), b.input(2), b.input(3), b.output(0), b.output(1), b.output(2));
    if (b.input_count() > kForwardInputs.state) in.push_back(b.input(kForwardInputs.state));
    const Values into{b.place(0), b.place(1), b.place(2)};
    Values found = apply(attention_backward_def(), std::move(in), b.attributes(), into);
    for (int i : {0, 1, 2})
      if (b.wants(i)) out[at(i)] = std::move(found[at(i)]);
  }
  if (b.wants(3) || ((b.has_gradient(1) || b.has_gradient(2)) && (b.wants(0) || b.wants(1)))) add_by_matrices(b, out);
  return out;
}

/// Of L = sum(u dquery) + sum(w dkey) + sum(z dvalue). With P the weights, K what dropout keeps of a matrix, D = K(dy v^T) - delta, the slopes
/// P D, A = scale (u k^T + q w^T), C = A D + K(dy z^T), X = P C, R = P A:
///   d dy = K(R) v + K(P) z - y sum R,   d y = -dy sum R,   d v = K(R)^T dy,   d bias = X,   d top = d log_sum = -sum X
///   d q = scale (X k + P D w),   d k = scale (X^T q + (P D)^T u);   sums along the rows.
Values attention_backward_gradient(const Backward& b) {
  Values out(at(b.input_count()));
  const Whole m{b, kBackwardInputs};
  const Value dy = by_head(b.input(0)), y = by_head(b.input(5));
  const Value p = m.weights(b.input(6), b.input(7)), inner = m.kept(product_with_turned(dy, m.v)) - row_sums(dy * y);
  Value a, c, d_dy, d_q, d_k;
  if (b.has_gradient(0)) {
    const Value u = by_head(b.gradient(0)) * m.scale;
    accumulate(a, product_with_turned(u, m.k));
    if (b.wants(2)) accumulate(d_k, turned_product(p * inner, u));
  }
  if (b.has_gradient(1)) {
    const Value w = by_head(b.gradient(1)) * m.scale;
    accumulate(a, product_with_turned(m.q, w));
    if (b.wants(1)) accumulate(d_q, matmul(p * inner, w));
  }
  if (b.has_gradient(2)) {
    const Value z = by_head(b.gradient(2));
    accumulate(c, m.kept(product_with_turned(dy, z)));
    if (b.wants(0)) accumulate(d_dy, matmul(m.kept(p), z));
  }
  if (a) {
    const Value r = p * a, kept = m.kept(r), along = row_sums(r);
    accumulate(c, a * inner);
    if (b.wants(0)) accumulate(d_dy, matmul(kept, m.v) - y * along);
    if (b.wants(3)) out[3] = m.like_input(turned_product(kept, dy), 3);
    if (b.wants(5)) out[5] = m.like_input(negate(dy * along), 5);
  }
  const Value x = p * c;
  if (b.wants(1)) accumulate(d_q, matmul(x, m.k) * m.scale);
  if (b.wants(2)) accumulate(d_k, turned_product(x, m.q) * m.scale);
  if (d_dy) out[0] = m.like_input(d_dy, 0);
  if (d_q) out[1] = m.like_input(d_q, 1);
  if (d_k) out[2] = m.like_input(d_k, 2);
  if (b.wants(4)) out[4] = sum_to(x, b.input_shape(4));
  if (b.wants(6) || b.wants(7)) {
    const Value d_log = m.statistic(negate(row_sums(x)));
    if (b.wants(6)) out[6] = d_log;
    if (b.wants(7)) out[7] = d_log;
  }
  return out;
}

}  // namespace gemel::inline ops
