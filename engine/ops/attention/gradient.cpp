// Attention's gradients in public operators: the backward record computes what training needs; what goes beyond it (a gradient for the bias, and
// second derivatives) is written with whole matrices [N, H, T, S]. Legend: engine/ops/attention/attention.h.
#include "engine/ops/attention/attention.h"
#include "engine/ops/attention/score_matrices.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

ScoreMatrices matrices_of(const Backward& b, AttentionInputsAt from) {
  Values in;
  for (int i = from.query; i < from.query + 4; ++i) in.push_back(b.input(i));
  if (from.state < b.input_count()) in.push_back(b.input(from.state));
  return ScoreMatrices(in, b.attributes());
}

/// A matrix [N, H, T, *] as [N, T, H, *] in the type of an input.
Value like_input(const Backward& b, const Value& x, int i) { return by_query(x, b.input_spec(i).dtype); }

/// What the scores' gradient is, where query, key or bias need it beyond what the backward record computes.
void add_by_matrices(const Backward& b, Values& out) {
  if (b.input_shape(1)[1] == 0) return;  // no score, which something could flow to
  const ScoreMatrices w = matrices_of(b, kForwardInputs);
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
    if (b.wants(0)) accumulate(out[0], like_input(b, matmul(d_scores, w.k) * w.scale, 0));
    if (b.wants(1)) accumulate(out[1], like_input(b, turned_product(d_scores, w.q) * w.scale, 1));
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
  const ScoreMatrices m = matrices_of(b, kBackwardInputs);
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
    if (b.wants(3)) out[3] = like_input(b, turned_product(kept, dy), 3);
    if (b.wants(5)) out[5] = like_input(b, negate(dy * along), 5);
  }
  const Value x = p * c;
  if (b.wants(1)) accumulate(d_q, matmul(x, m.k) * m.scale);
  if (b.wants(2)) accumulate(d_k, turned_product(x, m.q) * m.scale);
  if (d_dy) out[0] = like_input(b, d_dy, 0);
  if (d_q) out[1] = like_input(b, d_q, 1);
  if (d_k) out[2] = like_input(b, d_k, 2);
  if (b.wants(4)) out[4] = sum_to(x, b.input_shape(4));
  if (b.wants(6) || b.wants(7)) {
    const Value d_log = m.statistic(negate(row_sums(x)));
    if (b.wants(6)) out[6] = d_log;
    if (b.wants(7)) out[7] = d_log;
  }
  return out;
}

}  // namespace gemel::inline ops
