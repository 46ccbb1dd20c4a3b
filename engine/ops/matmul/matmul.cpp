// Matrix products.
#include "engine/ops/matmul/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "engine/base/error.h"
#include "engine/ops/add_product.h"
#include "engine/ops/common.h"
#include "engine/ops/matmul/gemm_forms.h"
#include "engine/ops/ops.h"

namespace gemel {
inline namespace ops {
namespace {

using Extents = std::span<const std::int64_t>;

std::int64_t elements_of(Extents extents) { return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies()); }

struct Sides {
  bool ta, tb;
  std::int64_t m, k, k_b, n;
  Extents batch_a, batch_b;  // leading axes; of one side alone: the other's matrix meets each

  Extents batch() const { return batch_a.empty() ? batch_b : batch_a; }
};

Sides sides(const Shape& a, const Shape& b, const Attributes& t) {
  const bool ta = t.boolean("transpose_a"), tb = t.boolean("transpose_b");
  const int ra = a.rank(), rb = b.rank();
  return {
      ta, tb, a[ra - (ta ? 1 : 2)], a[ra - (ta ? 2 : 1)], b[rb - (tb ? 1 : 2)], b[rb - (tb ? 2 : 1)], a.span().first(at(ra - 2)), b.span().first(at(rb - 2))};
}

Specs infer(const Specs& in, const Attributes& t) {
  check_floating("matmul", "a", in[0]);
  check_same_dtype("matmul", in[0], in[1]);
  for (int i : {0, 1})
    if (in[at(i)].shape.rank() < 2) throw ShapeError(fmt::format("matmul: {} is {}; accepted: two axes or more", i ? "b" : "a", to_string(in[at(i)].shape)));
  const Sides s = sides(in[0].shape, in[1].shape, t);
  if (s.k != s.k_b)
    throw ShapeError(fmt::format("matmul: a {}{} by b {}{} do not fit: {} columns meet {} rows; accepted: equal inner extents", to_string(in[0].shape),
                                 s.ta ? "^T" : "", to_string(in[1].shape), s.tb ? "^T" : "", s.k, s.k_b));
  if (!s.batch_a.empty() && !s.batch_b.empty() && !std::ranges::equal(s.batch_a, s.batch_b))
    throw ShapeError(
        fmt::format("matmul: leading axes of a {} and b {} differ; accepted: equal, or none on one side", to_string(in[0].shape), to_string(in[1].shape)));
  Shape out(s.batch());
  out.push_back(s.m);
  out.push_back(s.n);
  return {{out, in[0].dtype}};
}

Cost cost(const Problem& p) {
  const auto g = gemm_of(p);
  return {2 * g.batch * g.m * g.n * g.k, p.inputs[0].bytes() + p.inputs[1].bytes() + p.outputs[0].bytes()};
}

void reference(const HostCall& c) {
  const Sides s = sides(c.in_shape(0), c.in_shape(1), c.attributes());
  const auto a = c.real(0), b = c.real(1);
  const auto y = c.out_real(0);
  const std::int64_t batch = elements_of(s.batch());
  for (std::int64_t g = 0; g < batch; ++g) {
    const std::int64_t oa = s.batch_a.empty() ? 0 : g * s.m * s.k, ob = s.batch_b.empty() ? 0 : g * s.k * s.n;
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j) {
        double total = 0;
        for (std::int64_t p = 0; p < s.k; ++p) total += a[at(oa + (s.ta ? p * s.m + i : i * s.k + p))] * b[at(ob + (s.tb ? j * s.k + p : p * s.n + j))];
        y[at((g * s.m + i) * s.n + j)] = total;
      }
  }
}

Attributes attributes_of(Transpose a, Transpose b) { return {{"transpose_a", a == Transpose::yes}, {"transpose_b", b == Transpose::yes}}; }
Transpose flag(bool yes) { return yes ? Transpose::yes : Transpose::no; }

/// [..., M, N] as [... * M, N].
Value rows_of(const Value& v) {
  const Shape& s = v.shape();
  const std::int64_t n = s[s.rank() - 1];
  return reshape(v, Shape{Shape(s.span().first(at(s.rank() - 1))).elements(), n});
}

/// Sums the leading axes of a product away where the operand had none.
Value fold_batch(Value g, const Shape& like) {
  if (g.shape().rank() == like.rank()) return g;
  Axes lead;
  for (int k = 0; k < g.shape().rank() - like.rank(); ++k) lead.push_back(k);
  return sum(std::move(g), lead);
}

Values gradient(const Backward& b) {
  const bool ta = b.attributes().boolean("transpose_a"), tb = b.attributes().boolean("transpose_b");
  Value a = b.wants(1) ? b.input(0) : Value(), dy = b.gradient(0);
  const auto product = [&](int i, Value left, Transpose turn_left, Value right, Transpose turn_right) {
    if (dy.shape().rank() != b.input_shape(i).rank()) return fold_batch(matmul(std::move(left), std::move(right), turn_left, turn_right), b.input_shape(i));
    if (b.sum(i) && b.sum(i).dtype() == DType::float32) return add_matmul(b.sum(i), std::move(left), std::move(right), turn_left, turn_right);
    return matmul(std::move(left), std::move(right), turn_left, turn_right, b.place(i));
  };
  Values out(2);
  if (b.wants(0)) out[0] = ta ? product(0, b.input(1), flag(tb), dy, Transpose::yes) : product(0, dy, Transpose::no, b.input(1), flag(!tb));
  if (!b.wants(1)) return out;
  if (!ta && b.input_shape(1).rank() == 2) {  // the sum over a's leading axes is part of the product
    a = rows_of(a);
    dy = rows_of(dy);
    if (b.postponed(1, tb ? dy : a, tb ? a : dy)) return out;
  }
  out[1] = tb ? product(1, dy, Transpose::yes, a, flag(ta)) : product(1, a, flag(!ta), dy, Transpose::no);
  return out;
}

std::vector<Sample> samples() {
  std::vector<Sample> out;
  const auto flags = [](bool ta, bool tb) { return Attributes{{"transpose_a", ta}, {"transpose_b", tb}}; };
  for (bool ta : {false, true})
    for (bool tb : {false, true}) out.push_back({{ta ? f32({5, 3}) : f32({3, 5}), tb ? f32({4, 5}) : f32({5, 4})}, flags(ta, tb)});
  for (std::int64_t n : {1, 15, 16, 17, 31, 33, 65}) out.push_back({{f32({n, 33}), f32({33, n})}, flags(false, false)});
  out.push_back({{f32({2, 3, 4}), f32({2, 4, 5})}, flags(false, false)});
  out.push_back({{f32({2, 2, 4, 3}), f32({5, 4})}, flags(true, true)});
  out.push_back({{f32({3, 4}), f32({2, 4, 5})}, flags(false, false)});
  out.push_back({{f32({3, 0}), f32({0, 5})}, flags(false, false)});
  out.push_back({{f32({0, 4}), f32({4, 5})}, flags(false, false)});
  return also_in_two_bytes(std::move(out), {1, 2, 9, 12});
}

std::vector<Rejected> rejected() {
  const Attributes plain{{"transpose_a", false}, {"transpose_b", false}};
  return {{{f32({2, 3}), f32({2, 3})}, plain, "matmul: a [2, 3] by b [2, 3] do not fit: 3 columns meet 2 rows; accepted: equal inner extents"},
          {{f32({3}), f32({3, 2})}, plain, "matmul: a is [3]; accepted: two axes or more"},
          {{i32({2, 2}), i32({2, 2})}, plain, "matmul: a is int32 [2, 2]; accepted: float32, float16 or bfloat16"},
          {{f32({2, 3, 4}), f32({3, 4, 5})}, plain, "matmul: leading axes of a [2, 3, 4] and b [3, 4, 5] differ; accepted: equal, or none on one side"}};
}

}  // namespace

const OpDef& matmul_def() {
  static const OpDef def{
      .name = "matmul",
      .doc = "op(a) op(b) over the last two axes.",
      .inputs = {"a", "b"},
      .attributes = {{"transpose_a", Type::boolean, "a is [..., K, M]"}, {"transpose_b", Type::boolean, "b is [..., N, K]"}},
      .infer = infer,
      .cost = cost,
      .reference = reference,
      .gradient = gradient,
      .gradient_reads = {inputs(1), inputs(0)},
      .takes_epilogue = true,
      .variants = gemm_variants(),
      .samples = samples,
      .rejected = rejected,
  };
  return def;
}

}  // namespace ops

opencl::GemmProblem gemm_of(const Problem& p) {
  const Sides s = sides(p.inputs[0].shape, p.inputs[1].shape, p.attributes);
  // Where b has no leading axes and a's rows follow each other, a's leading axes are more rows: one product, not a batch.
  const bool folds = s.batch_b.empty() && !s.ta;
  const std::int64_t m = folds ? s.m * elements_of(s.batch_a) : s.m;
  return {.m = m,
          .n = s.n,
          .k = s.k,
          .batch = folds ? 1 : elements_of(s.batch()),
          .a = flag(s.ta),
          .b = flag(s.tb),
          .stride_a = folds || s.batch_a.empty() ? 0 : m * s.k,
          .stride_b = s.batch_b.empty() ? 0 : s.k * s.n,
          .stride_c = m * s.n,
          .types = {.in = p.inputs[0].dtype, .out = p.outputs[0].dtype},
          .epilogue = {p.op.epilogue ? std::string_view(p.op.epilogue->text) : ""}};
}

OwnedProblem matmul_of(const opencl::GemmProblem& g) {
  const bool ta = g.a == Transpose::yes, tb = g.b == Transpose::yes;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    return Spec{g.batch > 1 && stride ? Shape{g.batch, rows, columns} : Shape{rows, columns}, g.types.in};
  };
  Specs in{ta ? matrix(g.k, g.m, g.stride_a) : matrix(g.m, g.k, g.stride_a), tb ? matrix(g.n, g.k, g.stride_b) : matrix(g.k, g.n, g.stride_b)};
  Attributes attributes = attributes_of(g.a, g.b);
  Specs out = infer(in, attributes);
  return {matmul_def(), std::move(attributes), std::move(in), std::move(out)};
}

inline namespace ops {

Value weight_gradient(const Backward& b, int i, const Value& left, const Value& right) {
  if (b.postponed(i, left, right)) return {};
  return b.sum(i) ? add_matmul(b.sum(i), left, right, Transpose::yes) : matmul(left, right, Transpose::yes, Transpose::no, b.place(i));
}

const OpDef& add_matmul_def() {
  static const OpDef def = add_product::record<matmul_def>();
  return def;
}

Value matmul(Value a, Value b, Transpose transpose_a, Transpose transpose_b, const Value& into) {
  return apply(matmul_def(), list(std::move(a), std::move(b)), attributes_of(transpose_a, transpose_b), std::span(&into, 1))[0];
}

Value add_matmul(const Value& sum, Value a, Value b, Transpose transpose_a, Transpose transpose_b) {
  return apply(add_matmul_def(), list(std::move(a), std::move(b), sum), attributes_of(transpose_a, transpose_b), std::span(&sum, 1))[0];
}

}  // namespace ops
}  // namespace gemel
