// Attention's definitions in double on the host. Legend: engine/ops/attention/attention.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/attention/attention.h"

namespace gemel::inline ops {
namespace {

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add(double factor, std::span<const double> x, std::span<double> sum) {
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += factor * x[i];
}

/// Numbers of the weights' dropout, of one head of a sample.
class Draws {
 public:
  Draws(const HostCall& c, int state_input, std::int64_t sample, std::int64_t head)
      : threshold_(static_cast<std::uint32_t>(dropout_threshold(c.attributes().real("rate")))), scale_(dropout_scale(c.attributes().real("rate"))) {
    if (state_input >= c.inputs()) return;
    const auto stream = static_cast<std::uint32_t>(c.attributes().integer("stream"));
    key_ = draw(state_of(c, state_input), stream, place_of(c, state_input, keyed_by(c.in_spec(state_input)), sample), head);
  }
  /// What the weight of a query and a key is multiplied by.
  double factor(std::int64_t query, std::int64_t key) const {
    if (threshold_ == 0) return 1;
    const PhiloxCounter words =
        philox({static_cast<std::uint32_t>(key / 64 * 16 + key % 16), static_cast<std::uint32_t>(query), key_[2], key_[3]}, {key_[0], key_[1]});
    return (words[at(key / 16 % 4)] >> 8) < threshold_ ? 0 : scale_;
  }

 private:
  std::uint32_t threshold_;
  double scale_;
  PhiloxCounter key_{};
};

/// One query of one head of one sample, and the inputs that both records have.
class HostQuery {
 public:
  HostQuery(const HostCall& c, AttentionInputsAt in, const AttentionSizes& s)
      : c_(c), in_(in), s_(s), bias_strides_(broadcast_strides(c.in_shape(in.query + 3), s.scores())) {}
  void move_to(std::int64_t sample, std::int64_t head, std::int64_t query) { n_ = sample, h_ = head, i_ = query; }

  std::size_t row() const { return at((n_ * s_.queries + i_) * s_.heads + h_); }
  std::size_t row_of_key(std::int64_t j) const { return at((n_ * s_.keys + j) * s_.heads + h_); }
  /// The query's or a key's vector of `width` in a tensor.
  template <class T>
  std::span<T> of_query(std::span<T> x, std::int64_t width) const {
    return x.subspan(row() * at(width), at(width));
  }
  template <class T>
  std::span<T> of_key(std::span<T> x, std::int64_t j, std::int64_t width) const {
    return x.subspan(row_of_key(j) * at(width), at(width));
  }
  std::span<const double> query() const { return of_query(c_.real(in_.query), s_.head); }
  std::span<const double> key(std::int64_t j) const { return of_key(c_.real(in_.query + 1), j, s_.head); }
  std::span<const double> value(std::int64_t j) const { return of_key(c_.real(in_.query + 2), j, s_.value); }

  std::vector<double> scores() const {
    std::vector<double> out(at(s_.keys), kUnseen);
    const std::int64_t seen = s_.seen_by(i_, c_.attributes().boolean("causal"));
    const std::int64_t first = n_ * bias_strides_[0] + h_ * bias_strides_[1] + i_ * bias_strides_[2];
    for (std::int64_t j = 0; j < seen; ++j)
      out[at(j)] = c_.attributes().real("scale") * dot(query(), key(j)) + c_.real(in_.query + 3)[at(first + j * bias_strides_[3])];
    return out;
  }

 private:
  const HostCall& c_;
  AttentionInputsAt in_;
  const AttentionSizes& s_;
  Shape bias_strides_;
  std::int64_t n_ = 0, h_ = 0, i_ = 0;
};

AttentionSizes sizes_of(const HostCall& c, AttentionInputsAt in) { return attention_sizes(c.in_shape(in.query), c.in_shape(in.query + 2)); }

/// Calls f(query, draws, index of the query).
template <class F>
void each_query(const HostCall& c, AttentionInputsAt in, const AttentionSizes& s, F f) {
  HostQuery q(c, in, s);
  for (std::int64_t n = 0; n < s.samples; ++n)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const Draws draws(c, in.state, n, h);
      for (std::int64_t i = 0; i < s.queries; ++i) {
        q.move_to(n, h, i);
        f(q, draws, i);
      }
    }
}

}  // namespace

void attention_reference(const HostCall& c) {
  const AttentionSizes s = sizes_of(c, kForwardInputs);
  std::ranges::fill(c.out_real(0), 0.0);
  each_query(c, kForwardInputs, s, [&](const HostQuery& q, const Draws& draws, std::int64_t i) {
    const std::vector<double> scores = q.scores();
    double top = kUnseen, total = 0;
    for (double score : scores) top = std::max(top, score);
    const bool sees_any = top > kUnseen;
    for (double score : scores) total += sees_any ? std::exp(score - top) : 0;
    for (std::int64_t j = 0; sees_any && j < s.keys; ++j)
      add(std::exp(scores[at(j)] - top) / total * draws.factor(i, j), q.value(j), q.of_query(c.out_real(0), s.value));
    c.out_real(1)[q.row()] = sees_any ? top : 0;
    c.out_real(2)[q.row()] = sees_any ? std::log(total) : 0;
  });
}

void attention_backward_reference(const HostCall& c) {
  const AttentionSizes s = sizes_of(c, kBackwardInputs);
  const double scale = c.attributes().real("scale");
  for (int o : {0, 1, 2}) std::ranges::fill(c.out_real(o), 0.0);
  each_query(c, kBackwardInputs, s, [&](const HostQuery& q, const Draws& draws, std::int64_t i) {
    const auto dy = q.of_query(c.real(0), s.value);
    const double delta = dot(dy, q.of_query(c.real(5), s.value));
    const std::vector<double> scores = q.scores();
    for (std::int64_t j = 0; j < s.keys; ++j) {
      const double weight = std::exp(scores[at(j)] - c.real(6)[q.row()] - c.real(7)[q.row()]), factor = draws.factor(i, j);
      const double slope = weight * (factor * dot(dy, q.value(j)) - delta);
      add(scale * slope, q.key(j), q.of_query(c.out_real(0), s.head));
      add(scale * slope, q.query(), q.of_key(c.out_real(1), j, s.head));
      add(weight * factor, dy, q.of_key(c.out_real(2), j, s.value));
    }
  });
}

void attention_dropout_reference(const HostCall& c) {
  const Shape& shape = c.in_shape(0);
  std::size_t e = 0;
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t h = 0; h < shape[1]; ++h) {
      const Draws draws(c, 1, n, h);
      for (std::int64_t i = 0; i < shape[2]; ++i)
        for (std::int64_t j = 0; j < shape[3]; ++j, ++e) c.out_real(0)[e] = c.real(0)[e] * draws.factor(i, j);
    }
}

}  // namespace gemel::inline ops
