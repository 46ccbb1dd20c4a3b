// Layer normalisation; the formulas are in opencl/kernels/lib/ops/layer_norm.clh.
// Legend: x [..., n...] as R rows of n numbers, n being gamma's elements; inverse = 1 / sqrt(variance + eps);
// xhat = (x - mean) inverse.
#include "engine/ops/normalisation/layer_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {

Columns rows_of(const Shape& x, const Shape& gamma) {
  const std::int64_t n = gamma.elements();
  return {n ? x.elements() / n : 0, n};
}

namespace {

Shape leading(const Shape& x, const Shape& gamma) { return Shape(x.span().first(at(x.rank() - gamma.rank()))); }

void check(const char* op, const Spec& x, const Spec& gamma) {
  check_floating(op, "x", x);
  check_same_dtype(op, x, gamma);
  const int lead = x.shape.rank() - gamma.shape.rank();
  if (gamma.shape.empty() || lead < 0 || Shape(x.shape.span().last(at(gamma.shape.rank()))) != gamma.shape || gamma.elements() == 0)
    throw ShapeError(fmt::format("{}: gamma is {}; accepted: the last axes of x {}, of one element or more", op, to_string(gamma.shape), to_string(x.shape)));
}

Specs infer(const Specs& in, const Attributes&) {
  check("layer_norm", in[0], in[1]);
  check_same_dtype("layer_norm", in[0], in[2]);
  check_shape("layer_norm", "beta", in[2], in[1].shape);
  const Spec statistic{leading(in[0].shape, in[1].shape), DType::float32};
  return {in[0], statistic, statistic};
}

Specs backward_infer(const Specs& in, const Attributes&) {
  constexpr const char* op = "layer_norm_backward";
  check(op, in[1], in[2]);
  check_same_dtype(op, in[1], in[0]);
  check_shape(op, "dy", in[0], in[1].shape);
  for (std::size_t i : {3u, 4u}) {
    check_float32(op, i == 3 ? "mean" : "inverse", in[i]);
    check_shape(op, i == 3 ? "mean" : "inverse", in[i], leading(in[1].shape, in[2].shape));
  }
  return {in[1], in[2], in[2]};
}

void reference(const HostCall& c) {
  const auto [rows, width] = rows_of(c.in_shape(0), c.in_shape(1));
  const double n = static_cast<double>(width);
  for (std::size_t r = 0; r < at(rows); ++r) {
    const auto x = c.real(0).subspan(r * at(width), at(width));
    double mean = 0, squares = 0;
    for (double v : x) mean += v / n;
    for (double v : x) squares += (v - mean) * (v - mean);
    const double inverse = 1 / std::sqrt(squares / n + c.attributes().real("eps"));
    for (std::size_t j = 0; j < at(width); ++j) c.out_real(0)[r * at(width) + j] = (x[j] - mean) * inverse * c.real(1)[j] + c.real(2)[j];
    c.out_real(1)[r] = mean;
    c.out_real(2)[r] = inverse;
  }
}

void backward_reference(const HostCall& c) {
  const auto [rows, width] = rows_of(c.in_shape(1), c.in_shape(2));
  const double n = static_cast<double>(width);
  std::fill(c.out_real(1).begin(), c.out_real(1).end(), 0.0);
  std::fill(c.out_real(2).begin(), c.out_real(2).end(), 0.0);
  for (std::size_t r = 0; r < at(rows); ++r) {
    const double mean = c.real(3)[r], inverse = c.real(4)[r];
    const auto dy = c.real(0).subspan(r * at(width), at(width)), x = c.real(1).subspan(r * at(width), at(width));
    double plain = 0, weighted = 0;
    for (std::size_t j = 0; j < at(width); ++j) {
      const double xhat = (x[j] - mean) * inverse, g = dy[j] * c.real(2)[j];
      plain += g / n;
      weighted += g * xhat / n;
      c.out_real(1)[j] += dy[j] * xhat;
      c.out_real(2)[j] += dy[j];
    }
    for (std::size_t j = 0; j < at(width); ++j)
      c.out_real(0)[r * at(width) + j] = inverse * (dy[j] * c.real(2)[j] - plain - (x[j] - mean) * inverse * weighted);
  }
}

// ---- gradients

Value row_sums(Value x) { return sum(std::move(x), {1}, Keep::yes); }

/// In float32, in which the statistics are.
Value as_rows(const Value& x, const Shape& shape) { return cast(reshape(x, shape), DType::float32); }

/// The saved statistics are outputs: whoever differentiates the backward record sends gradients to them as well.
Values gradient(const Backward& b) {
  Values out(3);
  const Value x = b.input(0), gamma = b.input(1), mean = b.output(1), inverse = b.output(2);
  if (b.has_gradient(0)) {
    const Values into{Value(), b.place(1), b.place(2)};
    Values fused = apply(layer_norm_backward_def(), list(b.gradient(0), x, gamma, mean, inverse), {}, into);
    for (int i : {0, 1, 2})
      if (b.wants(i)) out[at(i)] = std::move(fused[at(i)]);
  }
  if (!b.wants(0)) return out;
  const auto [rows, width] = rows_of(x.shape(), gamma.shape());
  const Shape flat{rows, width}, column{rows, 1};
  const double one = 1 / static_cast<double>(width);
  if (b.has_gradient(1)) accumulate(out[0], cast(reshape(broadcast_to(reshape(b.gradient(1) * one, column), flat), x.shape()), x.dtype()));
  if (b.has_gradient(2)) {
    const Value slope = reshape(b.gradient(2) * inverse * inverse * inverse * -one, column);
    accumulate(out[0], cast(reshape((as_rows(x, flat) - reshape(mean, column)) * slope, x.shape()), x.dtype()));
  }
  return out;
}

/// Of L = sum(u dx) + sum(a dgamma) + sum(b dbeta). With g = dy gamma and row means M1 = M g, M2 = M g xhat, V1 = M u,
/// V2 = M u xhat, w = inverse (u - V1 - xhat V2):
///   d dy = gamma w + a xhat + b,   d gamma = sum_rows dy w,   h = d xhat = a dy - inverse (u M2 + g V2),
///   d x = inverse h,   d mean = - inverse sum h,   d inverse = sum u (g - M1 - xhat M2) + sum h (x - mean).
Values backward_gradient(const Backward& g) {
  const auto [rows, width] = rows_of(g.input_shape(1), g.input_shape(2));
  const Shape flat{rows, width}, column{rows, 1}, row{width};
  const double one = 1 / static_cast<double>(width);
  const Value inverse = reshape(g.input(4), column), gamma = as_rows(g.input(2), row);
  const Value centred = as_rows(g.input(1), flat) - reshape(g.input(3), column), xhat = centred * inverse;
  const bool beyond_dy = g.wants(1) || g.wants(2) || g.wants(3) || g.wants(4);
  const Value dy = beyond_dy ? as_rows(g.input(0), flat) : Value();
  Value d_dy, d_gamma, h, d_inverse;
  if (g.has_gradient(0)) {
    const Value u = as_rows(g.gradient(0), flat), v1 = row_sums(u) * one, v2 = row_sums(u * xhat) * one;
    const Value w = (u - v1 - xhat * v2) * inverse;
    if (g.wants(0)) d_dy = w * gamma;
    if (g.wants(2)) d_gamma = sum(dy * w, {0});
    if (beyond_dy) {
      const Value weighted = dy * gamma, m1 = row_sums(weighted) * one, m2 = row_sums(weighted * xhat) * one;
      h = negate((u * m2 + weighted * v2) * inverse);
      if (g.wants(4)) d_inverse = row_sums(u * (weighted - m1 - xhat * m2));
    }
  }
  if (g.has_gradient(1)) {
    const Value a = as_rows(g.gradient(1), row);
    if (g.wants(0)) accumulate(d_dy, xhat * a);
    if (beyond_dy) accumulate(h, dy * a);
  }
  if (g.has_gradient(2) && g.wants(0)) accumulate(d_dy, broadcast_to(as_rows(g.gradient(2), row), flat));
  if (g.wants(4) && h) accumulate(d_inverse, row_sums(h * centred));
  Values out(5);
  const auto like = [&](Value found, int i) { return cast(reshape(std::move(found), g.input_shape(i)), g.input_spec(i).dtype); };
  if (d_dy) out[0] = like(d_dy, 0);
  if (g.wants(1) && h) out[1] = like(h * inverse, 1);
  if (d_gamma) out[2] = like(d_gamma, 2);
  if (g.wants(3) && h) out[3] = like(negate(row_sums(h) * inverse), 3);
  if (d_inverse) out[4] = like(d_inverse, 4);
  return out;
}

// ---- in public operators

Values composed(const Values& in, const Attributes& a) {
  const auto [rows, width] = rows_of(in[0].shape(), in[1].shape());
  const Shape row{width}, lead = leading(in[0].shape(), in[1].shape());
  const Value x = as_rows(in[0], {rows, width}), row_mean = mean(x, {1}, Keep::yes), centred = x - row_mean;
  const Value inverse = rsqrt(mean(square(centred), {1}, Keep::yes) + a.real("eps"));
  const Value y = centred * inverse * as_rows(in[1], row) + as_rows(in[2], row);
  return {cast(reshape(y, in[0].shape()), in[0].dtype()), reshape(row_mean, lead), reshape(inverse, lead)};
}

Values composed_backward(const Values& in, const Attributes&) {
  const auto [rows, width] = rows_of(in[1].shape(), in[2].shape());
  const Shape flat{rows, width}, column{rows, 1};
  const Value dy = as_rows(in[0], flat), inverse = reshape(in[4], column), xhat = (as_rows(in[1], flat) - reshape(in[3], column)) * inverse;
  const Value g = dy * as_rows(in[2], {width}), plain = mean(g, {1}, Keep::yes), weighted = mean(g * xhat, {1}, Keep::yes);
  const auto like = [&](const Value& found, std::size_t i) { return cast(reshape(found, in[i].shape()), in[i].dtype()); };
  return {like((g - plain - xhat * weighted) * inverse, 1), like(sum(dy * xhat, {0}), 2), like(sum(dy, {0}), 2)};
}

// ---- samples

struct Sizes {
  Shape x, gamma;
};
const std::vector<Sizes>& sizes() {
  static const std::vector<Sizes> all{{{2, 3}, {3}},       {{17, 33}, {33}}, {{4, 5, 16}, {16}}, {{3, 5, 7, 4}, {7, 4}}, {{65, 64}, {64}},   {{6}, {6}},
                                      {{1, 1000}, {1000}}, {{0, 5}, {5}},    {{700, 3}, {3}},    {{9, 800}, {800}},      {{3, 2052}, {2052}}};
  return all;
}
const Fill kPositive = uniform(0.3, 2);

}  // namespace

const OpDef& layer_norm_def() {
  static const OpDef def{
      .name = "layer_norm",
      .doc = "Normalises over the last axes, as many as gamma has. Rows with deviations above 1e19, whose squares overflow float32, give beta.",
      .inputs = {"x", "gamma", "beta"},
      .outputs = {"y", "mean", "inverse"},
      .attributes = {{"eps", Type::real, "added to the variance"}},
      .infer = infer,
      .cost = per_element<8>,
      .reference = reference,
      .gradient = gradient,
      .gradient_reads = {inputs(0, 1) | outputs(1, 2)},
      .composed = composed,
      .may_reuse = {{0, 0}},
      .variants = layer_norm_variants(),
      .samples =
          [] {
            std::vector<Sample> out;
            for (const auto& [x, gamma] : sizes()) out.push_back({{{x, DType::float32}, {gamma, DType::float32}, {gamma, DType::float32}}, {{"eps", 1e-5}}});
            return also_in_two_bytes(std::move(out), {1, 3});
          },
      .rejected =
          [] {
            const Attributes a{{"eps", 1e-5}};
            return std::vector<Rejected>{
                {{f32({2, 4}), f32({3}), f32({3})}, a, "layer_norm: gamma is [3]; accepted: the last axes of x [2, 4], of one element or more"},
                {{f32({2, 4}), f32({4}), f32({2, 4})}, a, "layer_norm: beta is [2, 4]; accepted: [4]"},
                {{f32({2, 4}), {Shape{4}, DType::bfloat16}, f32({4})},
                 a,
                 "layer_norm: float32 [2, 4] and bfloat16 [4] differ in element type; accepted: equal types, cast one"},
                {{i32({2, 4}), f32({4}), f32({4})}, a, "layer_norm: x is int32 [2, 4]; accepted: float32, float16 or bfloat16"}};
          },
  };
  return def;
}

const OpDef& layer_norm_backward_def() {
  static const OpDef def{
      .name = "layer_norm_backward",
      .doc = "The gradients of layer_norm for x, gamma and beta, from its saved statistics.",
      .inputs = {"dy", "x", "gamma", "mean", "inverse"},
      .outputs = {"dx", "dgamma", "dbeta"},
      .infer = backward_infer,
      .cost = per_element<12>,
      .reference = backward_reference,
      .gradient = backward_gradient,
      .gradient_reads = {inputs(1, 2, 3, 4), inputs(0, 1, 2, 3, 4)},
      .composed = composed_backward,
      .variants = layer_norm_backward_variants(),
      .samples =
          [] {
            std::vector<Sample> out;
            for (const auto& [x, gamma] : sizes()) {
              const Spec wide{x, DType::float32}, statistic{leading(x, gamma), DType::float32};
              out.push_back({{wide, wide, {gamma, DType::float32}, statistic, statistic}, {}, {Fill{}, Fill{}, Fill{}, Fill{}, kPositive}});
            }
            return also_in_two_bytes(std::move(out), {1, 3}, inputs(0, 1, 2));
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({2, 4}), f32({2, 4}), f32({4}), f32({4}), f32({2})}, {}, "layer_norm_backward: mean is [4]; accepted: [2]"}};
          },
  };
  return def;
}

Value layer_norm(Value x, Value gamma, Value beta, double eps) {
  return apply(layer_norm_def(), list(std::move(x), std::move(gamma), std::move(beta)), {{"eps", eps}})[0];
}

}  // namespace gemel::inline ops
