// Attention against the same thing in public operators and against PyTorch's; its dropout, its memory, and queries that see nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/dispatch.h"
#include "engine/files/safetensors.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/nn/layers/multi_head_attention.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/expected_values.h"
#include "tests/support/operators/finite_differences.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;

// Sums of some hundred terms in float32 on both sides, and a chain of three products in a gradient, relative to the largest element.
constexpr double kAttentionError = 1e-5, kAttentionGradientError = 5e-5;

struct Extents {
  std::int64_t n, t, s, h, e, v;
};

/// Query, key, value and bias, of standard normal numbers.
Values inputs(Session& session, const Extents& x, const Shape& bias, unsigned seed = 1) {
  Values out;
  for (const Shape& shape : {Shape{x.n, x.t, x.h, x.e}, Shape{x.n, x.s, x.h, x.e}, Shape{x.n, x.s, x.h, x.v}, bias})
    out.push_back(leaf(session.tensor({shape, DType::float32}, std::span<const double>(noise(shape.elements(), seed++)))));
  return out;
}

Value by_head(const Value& x) { return transpose(x, {0, 2, 1, 3}); }

/// Attention in public operators.
Value composed(const Values& in, Causal causal, double rate) {
  Session& session = in[0].session();
  const std::int64_t t = in[0].shape()[1], s = in[1].shape()[1];
  Value scores = matmul(by_head(in[0]), by_head(in[1]), Transpose::no, Transpose::yes) * (1 / std::sqrt(static_cast<double>(in[0].shape()[3]))) + in[3];
  if (causal == Causal::yes) {
    List mask(at(t * s));
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t j = 0; j < s; ++j) mask[at(i * s + j)] = j <= i + s - t ? 0 : -INFINITY;
    scores = scores + session.tensor(f32({t, s}), std::span<const double>(mask));
  }
  Value weights = softmax(scores);
  if (rate > 0) {
    const std::int64_t stream = session.random().next_stream(*session.scope());
    weights = apply(attention_dropout_def(), list(weights, session.random().state()), {{"rate", rate}, {"stream", stream}})[0];
  }
  return by_head(matmul(weights, by_head(in[2])));
}

/// What f makes of the inputs, and the gradients of a weighted sum of it and its square.
std::vector<List> results(const Values& in, const std::function<Value(const Values&)>& f) {
  in[0].session().begin_random_step(3, 7);
  const Value y = f(in);
  std::vector<List> out{read(y)};
  for (const Value& g : gradient({weighted(y)}, in)) out.push_back(read(g));
  return out;
}

void expect_equals_the_composition(Session& session, const Extents& x, const Shape& bias, const Attention& how) {
  const Values in = inputs(session, x, bias);
  const auto got = results(in, [&](const Values& v) {
    Attention with = how;
    with.bias = v[3];
    return attention(v[0], v[1], v[2], with);
  });
  const auto expected = results(in, [&](const Values& v) { return composed(v, how.causal, how.dropout); });
  const char* const names[] = {"y", "dquery", "dkey", "dvalue", "dbias"};
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(relative_error(got[i], expected[i]), i ? kAttentionGradientError : kAttentionError) << names[i] << ", [" << x.t << ", " << x.s << "]";
}

TEST(Attention, equals_its_composition_of_public_operators) {
  if (!does_long_work()) GTEST_SKIP() << "on an emulator: with --full";
  for (const auto& device : {shared_test_device(), shared_narrow_device()}) {
    Session session(device, 5);
    expect_equals_the_composition(session, {2, 16, 17, 3, 16, 16}, {1, 3, 1, 17}, {});
    expect_equals_the_composition(session, {2, 33, 65, 2, 64, 64}, {2, 1, 1, 65}, {.dropout = 0.3});
    if (device != shared_test_device() && !is_full_run()) continue;
    expect_equals_the_composition(session, {1, 300, 700, 1, 8, 40}, {1, 1, 300, 700}, {.causal = Causal::yes, .dropout = 0.1});
    expect_equals_the_composition(session, {3, 150, 150, 2, 96, 32}, {3, 1, 1, 150}, {.causal = Causal::yes});
    expect_equals_the_composition(session, {1, 1, 1500, 1, 64, 64}, {1, 1, 1, 1500}, {});
    expect_equals_the_composition(session, {1, 15, 15, 1, 600, 500}, {1, 1, 1, 15}, {});
  }
}

TEST(Attention, has_second_derivatives) {
  const Extents x{1, 3, 4, 2, 3, 2};
  const auto f = [](const Values& v) {
    v[0].session().begin_random_step(1);
    return weighted(attention(v[0], v[1], v[2], {.bias = v[3], .causal = Causal::yes, .dropout = 0.4}));
  };
  const auto [first, second] =
      against_differences(f, {f32({1, x.t, x.h, x.e}), f32({1, x.s, x.h, x.e}), f32({1, x.s, x.h, x.v}), f32({1, x.h, x.t, x.s})}, 0.8);
  EXPECT_LE(first, 1e-7);  // of central differences in double
  EXPECT_LE(second, 1e-6);
}

void expect_what_pytorch_gives(const std::string& name, const Attention& how, const std::vector<std::string>& wanting) {
  Session& session = test_session();
  const testing::Expected expected("attention/expected.safetensors");
  Values in;
  for (const std::string& what : wanting) in.push_back(leaf(expected.tensor(session, name + "." + what)));
  Attention with = how;
  if (in.size() > 3) with.bias = in[3];
  const Value y = attention(in[0], in[1], in[2], with);
  EXPECT_LE(relative_error(read(y), expected.numbers(name + ".y")), kAttentionError) << name;
  const Values gradients = gradient({sum(y * y)}, in);
  for (std::size_t i = 0; i < in.size(); ++i)
    EXPECT_LE(relative_error(read(gradients[i]), expected.numbers(name + ".d_" + wanting[i])), kAttentionGradientError) << name << ", " << wanting[i];
}

TEST(DeviceAttention, gives_what_pytorch_gives) {
  const testing::Expected expected("attention/expected.safetensors");
  expect_what_pytorch_gives("padded", {.bias = expected.tensor(test_session(), "padded.bias")}, {"query", "key", "value"});
  expect_what_pytorch_gives("learned", {}, {"query", "key", "value", "bias"});
}

TEST(DeviceAttention, of_later_queries_sees_more_keys) {
  expect_what_pytorch_gives("causal", {.causal = Causal::yes}, {"query", "key", "value"});
  const testing::Expected expected("attention/expected.safetensors");
  expect_what_pytorch_gives("causal", {.bias = expected.tensor(test_session(), "causal.bias")}, {"query", "key", "value"});
}

TEST(DeviceAttention, weighs_keys_alike_where_all_are_padding) {
  const testing::Expected expected("attention/expected.safetensors");
  expect_what_pytorch_gives("never", {.bias = expected.tensor(test_session(), "never.bias")}, {"query", "key", "value"});
}

TEST(DeviceAttention, of_no_key_is_zero_and_has_no_gradient) {
  Session& session = test_session();
  const Extents x{1, 4, 3, 2, 8, 8};
  Values in = inputs(session, x, {1, 1, 4, 3});
  List bias(12, 0);
  std::fill(bias.begin() + 3, bias.begin() + 6, -INFINITY);  // of the second query, all keys
  in[3] = session.tensor(f32({1, 1, 4, 3}), std::span<const double>(bias));
  const auto expect = [&](const Attention& how, const std::vector<std::int64_t>& blind) {
    const Value y = attention(in[0], in[1], in[2], how);
    const Values gradients = gradient({weighted(y)}, {in[0], in[1], in[2]});
    for (std::int64_t i : blind)
      for (const Value& rows : {y, gradients[0]}) {
        const List part = read(slice(rows.detached(), {0, i, 0, 0}, {1, i + 1, 2, 8}));
        EXPECT_EQ(part, List(part.size(), 0.0)) << "query " << i;
      }
    for (const Value& g : gradients)
      for (double v : read(g)) EXPECT_TRUE(std::isfinite(v));
    EXPECT_NE(read(slice(y.detached(), {0, 2, 0, 0}, {1, 3, 2, 8})), List(16, 0.0)) << "another query sees keys";
  };
  expect({.bias = in[3]}, {1});
  expect({.causal = Causal::yes}, {0});  // four queries of three keys
  expect({.bias = in[3], .causal = Causal::yes}, {0, 1});
}

/// The factors of the weights [n, h, t, s], read from what attention makes of values that are the rows of a unit matrix.
List factors(Session& session, const Extents& x, double rate) {
  List unit(at(x.n * x.s * x.h * x.s), 0.0);
  for (std::int64_t row = 0; row < x.n * x.s * x.h; ++row) unit[at(row * x.s + row / x.h % x.s)] = 1;
  const Value nothing = full(session, f32({x.n, x.t, x.h, 2}), 0), none = full(session, f32({x.n, x.s, x.h, 2}), 0);
  List out = read(by_head(attention(nothing, none, session.tensor(f32({x.n, x.s, x.h, x.s}), std::span<const double>(unit)), {.dropout = rate})));
  for (double& f : out) f *= static_cast<double>(x.s);
  return out;
}

TEST(DeviceAttention, drops_weights_by_sample_head_query_and_key_alone) {
  Session session(shared_test_device(), 9);
  const Extents whole{3, 9, 70, 2, 2, 70}, part{2, 5, 33, 2, 2, 33};
  session.begin_random_step(4, 20);
  const List all = factors(session, whole, 0.25);
  const auto in_whole = [&](std::int64_t n, std::int64_t h, std::int64_t i, std::int64_t j) {
    return all[at(((n * whole.h + h) * whole.t + i) * whole.s + j)];
  };
  const auto expect_part = [&](const List& got, const std::vector<std::int64_t>& samples) {
    std::size_t e = 0;
    for (std::int64_t n : samples)
      for (std::int64_t h = 0; h < part.h; ++h)
        for (std::int64_t i = 0; i < part.t; ++i)
          for (std::int64_t j = 0; j < part.s; ++j, ++e) ASSERT_NEAR(got[e], in_whole(n, h, i, j), 1e-5) << "sample " << n << ", query " << i << ", key " << j;
  };
  session.begin_random_step(4, 21);
  expect_part(factors(session, part, 0.25), {1, 2});
  const std::vector<std::int64_t> places{22, 20};
  session.begin_random_step(4, places);
  expect_part(factors(session, part, 0.25), {2, 0});

  double dropped = 0;
  for (double f : all) {
    dropped += f == 0;
    if (f != 0) {
      EXPECT_NEAR(f, 1 / 0.75, 1e-5);
    }
  }
  const auto count = static_cast<double>(all.size());
  EXPECT_NEAR(dropped / count, 0.25, 5 * std::sqrt(0.25 * 0.75 / count));  // five standard errors
  for (const auto& [n, h, i] : {std::array{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}) {
    int same = 0;
    for (std::int64_t j = 0; j < whole.s; ++j) same += in_whole(n, h, i, j) == in_whole(0, 0, 0, j);
    EXPECT_LT(same, whole.s) << "another sample, head or query drops others";
  }
}

TEST(Attention, of_a_last_query_with_cached_keys_is_the_last_of_all) {
  Session& session = test_session();
  const Values in = inputs(session, {2, 40, 40, 2, 16, 16}, {2, 1, 1, 40});
  const Value all = attention(in[0], in[1], in[2], {.causal = Causal::yes}), last = slice(in[0], {0, 39, 0, 0}, {2, 40, 2, 16});
  const Value one = attention(last, in[1], in[2], {.causal = Causal::yes});
  EXPECT_LE(relative_error(read(one), read(slice(all, {0, 39, 0, 0}, {2, 40, 2, 16}))), kAttentionError);
}

// ---- memory

Problem problem_of(const OpDef& op, const Specs& in, const Specs& out, const Attributes& attributes) { return {op, attributes, in, out}; }

TEST(Attention, takes_scratch_memory_linear_in_the_lengths) {
  const Attributes attributes{{"scale", 0.125}, {"causal", false}, {"rate", 0.0}, {"stream", std::int64_t{0}}};
  const auto bytes = [&](const OpDef& op, std::size_t variant, std::int64_t length, std::int64_t heads) {
    const Spec x = f32({1, length, heads, 64}), statistic = f32({1, length, heads}), none = f32({1, 1, 1, 1});
    const Specs in = op.name == "attention" ? Specs{x, x, x, none} : Specs{x, x, x, x, none, x, statistic, statistic};
    const Variant& v = op.variants[variant];
    const Specs out = op.infer(in, attributes);
    const Problem problem = problem_of(op, in, out, attributes);
    if (!v.workspace_bytes || declines(v, problem, test_device().profile())) return std::int64_t{0};
    return v.workspace_bytes(problem, test_device().profile());
  };
  for (const OpDef* op : {&attention_def(), &attention_backward_def()})
    for (std::size_t variant = 0; variant < op->variants.size(); ++variant)
      for (std::int64_t heads : {1, 12}) {
        const std::int64_t tensor = 4 * 4096 * heads * 64;
        EXPECT_LE(bytes(*op, variant, 4096, heads), 2 * bytes(*op, variant, 2048, heads)) << op->variants[variant].name;
        EXPECT_LE(bytes(*op, variant, 4096, heads), (2 * test_device().profile().compute_units + 1) * tensor) << op->variants[variant].name;
      }
}

// ---- on GPUs

TEST(Attention, of_gpus_goes_by_tiles_where_heads_fit) {
  opencl::DeviceProfile gpu{
      .kind = opencl::DeviceKind::gpu, .compute_units = 132, .local_bytes = 48 << 10, .has_real_local_memory = true, .max_group_size = 1024};
  const Attributes attributes{{"scale", 0.125}, {"causal", false}, {"rate", 0.0}, {"stream", std::int64_t{0}}};
  const auto chosen = [&](const OpDef& op, std::int64_t head, std::int64_t value) {
    const Spec q = f32({8, 128, 12, head}), v = f32({8, 128, 12, value}), statistic = f32({8, 128, 12}), bias = f32({8, 1, 1, 128});
    const Specs in = op.name == "attention" ? Specs{q, q, v, bias} : Specs{v, q, q, v, bias, v, statistic, statistic}, out = op.infer(in, attributes);
    return std::string(choose(problem_of(op, in, out, attributes), gpu).name);
  };
  for (const OpDef* op : {&attention_def(), &attention_backward_def()}) {
    for (std::int64_t width : {1, 20, 64, 128}) EXPECT_EQ(chosen(*op, width, width), "group_tiles") << op->name << ", " << width;
    EXPECT_EQ(chosen(*op, 64, 129), "groups") << op->name;
  }
  EXPECT_EQ(chosen(attention_def(), 300, 64), "group_tiles") << "a query's elements come in turn";
  EXPECT_EQ(chosen(attention_backward_def(), 129, 64), "groups");
  gpu.max_group_size = 63;
  EXPECT_THROW(chosen(attention_def(), 64, 64), DeviceError) << "no group is large enough";
}

double dot(const List& a, std::size_t i, const List& b, std::size_t j, std::size_t width) {
  return std::inner_product(a.begin() + std::ptrdiff_t(i * width), a.begin() + std::ptrdiff_t((i + 1) * width), b.begin() + std::ptrdiff_t(j * width), 0.0);
}

TEST(Attention, of_4096_tokens_is_right_in_little_memory) {
  if (test_device().profile().is_emulator) GTEST_SKIP() << "its loops are too long for an emulator";
  constexpr std::size_t kTokens = 4096, kWidth = 8;
  Session& session = test_session();
  const Values in = inputs(session, {1, kTokens, kTokens, 1, kWidth, kWidth}, {1, 1, 1, 1});
  const Value dy = session.tensor(in[0].spec(), std::span<const double>(noise(in[0].elements(), 50)));
  opencl::Allocator& memory = session.device().memory();
  memory.reset_peak();
  const std::int64_t before = memory.statistics().in_use;
  const Values out =
      apply(attention_def(), list(in[0], in[1], in[2], in[3].detached()), {{"scale", 0.5}, {"causal", true}, {"rate", 0.0}, {"stream", std::int64_t{0}}});
  const Values gradients = gradient({out[0]}, {in[0], in[1], in[2]}, {dy});
  std::vector<List> d;
  for (const Value& g : gradients) d.push_back(read(g));
  EXPECT_LE(memory.statistics().peak_in_use - before, std::int64_t{16} << 20) << "a matrix of scores takes 64 MiB";

  const List q = read(in[0]), k = read(in[1]), v = read(in[2]), u = read(dy), y = read(out[0]), top = read(out[1]), log_sum = read(out[2]);
  const double bias = read(in[3])[0];
  const auto score = [&](std::size_t i, std::size_t j) { return 0.5 * dot(q, i, k, j, kWidth) + bias; };
  for (std::size_t i : {0ul, 700ul, 4095ul}) {  // of some queries
    double total = 0;
    List sum(kWidth), slopes(kWidth);
    for (std::size_t j = 0; j <= i; ++j) total += std::exp(score(i, j));
    for (std::size_t j = 0; j <= i; ++j) {
      const double weight = std::exp(score(i, j)) / total, slope = weight * (dot(u, i, v, j, kWidth) - dot(u, i, y, i, kWidth)) * 0.5;
      for (std::size_t c = 0; c < kWidth; ++c) sum[c] += weight * v[j * kWidth + c], slopes[c] += slope * k[j * kWidth + c];
    }
    EXPECT_NEAR(top[i] + log_sum[i], std::log(total), 1e-5);
    for (std::size_t c = 0; c < kWidth; ++c) {
      EXPECT_NEAR(y[i * kWidth + c], sum[c], 1e-5);
      EXPECT_NEAR(d[0][i * kWidth + c], slopes[c], 5e-5);
    }
  }
  for (std::size_t j : {0ul, 2048ul, 4000ul}) {  // of some keys
    List dk(kWidth), dv(kWidth);
    for (std::size_t i = j; i < kTokens; ++i) {
      const double weight = std::exp(score(i, j) - top[i] - log_sum[i]), slope = weight * (dot(u, i, v, j, kWidth) - dot(u, i, y, i, kWidth)) * 0.5;
      for (std::size_t c = 0; c < kWidth; ++c) dv[c] += weight * u[i * kWidth + c], dk[c] += slope * q[i * kWidth + c];
    }
    for (std::size_t c = 0; c < kWidth; ++c) {
      EXPECT_NEAR(d[1][j * kWidth + c], dk[c], 5e-5 * std::max(1.0, std::abs(dk[c])));
      EXPECT_NEAR(d[2][j * kWidth + c], dv[c], 5e-5 * std::max(1.0, std::abs(dv[c])));
    }
  }
}

// ---- the layer's function

TEST(Attention, of_layers_divides_the_width_among_heads) {
  Session& session = test_session();
  const auto random = [&](const Shape& shape, unsigned seed) {
    return session.tensor({shape, DType::float32}, std::span<const double>(noise(shape.elements(), seed)));
  };
  const Value q = random({2, 5, 12}, 1), k = random({2, 7, 12}, 2), v = random({2, 7, 12}, 3);
  const List numbers{4, 9, 0, 1, 2, 0, 0, 5, 0, 0, 0, 0, 0, 0};
  const Value bias = nn::padding_bias(session.tensor(i64({2, 7}), std::span<const double>(numbers)), 0);
  EXPECT_EQ(bias.shape(), (Shape{2, 1, 1, 7}));
  const Value split_q = reshape(q, Shape{2, 5, 3, 4}), split_k = reshape(k, Shape{2, 7, 3, 4}), split_v = reshape(v, Shape{2, 7, 3, 4});
  EXPECT_LE(relative_error(read(nn::attention({q, k, v, bias}, 3)), read(composed({split_q, split_k, split_v, bias}, Causal::no, 0))), kAttentionError);
  const Value none = full(session, f32({1, 1, 1, 1}), 0);
  EXPECT_LE(relative_error(read(nn::attention({q, k, v}, 3, 0, Causal::yes)), read(composed({split_q, split_k, split_v, none}, Causal::yes, 0))),
            kAttentionError);
  EXPECT_EQ(message_of<ShapeError>([&] {
              nn::attention({q, k, v}, 5);
            }),
            "attention: 5 heads share a query [2, 5, 12]; accepted: [N, T, D], of a width that they divide");
  EXPECT_EQ(message_of<ShapeError>([&] {
              nn::attention({q, k, random({2, 7, 10}, 4)}, 3);
            }),
            "attention: 3 heads share a value [2, 7, 10]; accepted: [N, T, D], of a width that they divide");
}

}  // namespace
}  // namespace gemel::testing
