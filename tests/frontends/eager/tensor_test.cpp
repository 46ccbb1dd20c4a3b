// Tensors of the eager front end: made, computed with, changed in place.
#include <gtest/gtest.h>

#include <set>

#include "engine/base/error.h"
#include "engine/graph/capture/program.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "tests/support/message_of.h"
#include "tests/support/models/eager_session.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::eager::testing {
namespace {

class EagerTensor : public EagerTest {};
INSTANTIATE_TEST_SUITE_P(Reference, EagerTensor, ::testing::Values(Where::reference));
INSTANTIATE_TEST_SUITE_P(Device, EagerTensor, ::testing::Values(Where::device));

// ---- made
TEST_P(EagerTensor, nested_braces_give_shape_and_type) {
  const Tensor x = tensor(session, {{1., 2., 3.}, {4., 5., 6.}});
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(x.dtype(), DType::float32);
  EXPECT_EQ(x.to_vector(), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor(session, {{1, 2}, {3, 4}}).dtype(), DType::int64);
  EXPECT_EQ(tensor(session, {true, false}).dtype(), DType::boolean);
  EXPECT_EQ(tensor(session, {{7}}).shape(), (Shape{1, 1}));
  EXPECT_EQ(tensor(session, 7).shape(), Shape());
  EXPECT_EQ(tensor(session, std::vector<std::vector<int>>{{1, 2}, {3, 4}}).to_vector<int>(), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(tensor(session, {1, 2}, {.dtype = DType::float32}).dtype(), DType::float32);
  expect_error<ShapeError>([&] { tensor(session, {{1, 2}, {3}}); }, "tensor: row 1 is [1], row 0 [2]; accepted: rows of one shape");
}

TEST_P(EagerTensor, large_integers_keep_every_digit) {
  const std::int64_t large = (std::int64_t{1} << 62) + 1;  // no double
  EXPECT_EQ(tensor(session, {large}).to_vector<std::int64_t>()[0], large);
  const std::vector<std::int64_t> data{large, -large};
  EXPECT_EQ(from_host(session, data, {2}).to_vector<std::int64_t>(), data);
}

TEST_P(EagerTensor, factories_fill_as_they_say) {
  EXPECT_EQ(zeros(session, {2, 2}).to_vector(), (Floats{0, 0, 0, 0}));
  EXPECT_EQ(ones(session, {2}, {.dtype = DType::int32}).to_vector<int>(), (std::vector<int>{1, 1}));
  EXPECT_EQ(full(session, {3}, 2.5).to_vector(), (Floats{2.5, 2.5, 2.5}));
  EXPECT_EQ(arange(session, 2, 9, 3).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 5, 8}));
  EXPECT_EQ(arange(session, 1., 0., -0.25).to_vector(), (Floats{1, 0.75, 0.5, 0.25}));
  EXPECT_EQ(arange(session, 3, 3).numel(), 0);
  const Floats data{1, 2, 3, 4};
  EXPECT_EQ(from_host(session, data, {2, 2}, {.requires_grad = true}).requires_grad(), true);
  EXPECT_THROW(from_host(session, data, {3}), ShapeError);
  EXPECT_THROW(arange(session, 0, 3, 0), UsageError);
}

TEST_P(EagerTensor, draws_differ_from_each_other_and_repeat_with_the_seed) {
  session.manual_seed(7);
  const Floats first = rand(session, {64}).to_vector(), second = rand(session, {64}).to_vector();
  EXPECT_NE(first, second);
  for (float x : first) EXPECT_TRUE(x >= 0 && x < 1) << x;
  session.manual_seed(7);
  EXPECT_EQ(rand(session, {64}).to_vector(), first);
  const Floats normal = randn(session, {64}).to_vector();
  EXPECT_TRUE(std::any_of(normal.begin(), normal.end(), [](float x) { return x < 0; }));
}

// ---- computed with
TEST_P(EagerTensor, numbers_take_the_tensors_element_type_as_in_pytorch) {
  const Tensor x = tensor(session, {1., 2.}), i = tensor(session, {3, 4});
  EXPECT_EQ((1 - x * 2 + 0.5).to_vector(), (Floats{-0.5, -2.5}));
  EXPECT_EQ((2 / x).to_vector(), (Floats{2, 1}));
  EXPECT_EQ((i + 1).dtype(), DType::int64);
  EXPECT_EQ((i * 0.5).dtype(), DType::float32);
  EXPECT_EQ((i * 0.5).to_vector(), (Floats{1.5, 2}));
  EXPECT_EQ((i / 2).to_vector(), (Floats{1.5, 2}));
  EXPECT_EQ((tensor(session, {true, false}) + 1).to_vector<int>(), (std::vector<int>{2, 1}));
  EXPECT_EQ((-x).to_vector(), (Floats{-1, -2}));
}

TEST_P(EagerTensor, numbers_beside_values_follow_the_same_rule) {
  const Tensor x = tensor(session, {1., 2.}), i = tensor(session, {3, 4}), b = tensor(session, {true, false});
  const auto expect_same = [](const Tensor& of_values, const Tensor& of_tensors) {
    EXPECT_EQ(of_values.dtype(), of_tensors.dtype());
    EXPECT_EQ(of_values.to_vector(), of_tensors.to_vector());
  };
  for (const Tensor& t : {x, i}) {
    const Value v = t;
    expect_same(v * 0.5, t * 0.5);
    expect_same(0.5f + v, 0.5f + t);
    expect_same(v - 1, t - 1);
    expect_same(1 - v, 1 - t);
    expect_same(v / 2, t / 2);
    expect_same(2 / v, 2 / t);
    expect_same(v / v, t / t);
  }
  expect_same(Value(b) + 1, b + 1);
  expect_same(Value(b) * 0.5, b * 0.5);
  EXPECT_EQ(Tensor(Value(i) * 0.5).to_vector(), (Floats{1.5, 2}));
  EXPECT_EQ((Value(i) + 1).dtype(), DType::int64);
}

TEST_P(EagerTensor, integers_beside_integers_are_exact_or_refused) {
  constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1;
  const Tensor wide = tensor(session, {0, 1}), narrow = wide.to(DType::int32);
  EXPECT_EQ((wide + kOdd).to_vector<std::int64_t>(), (std::vector<std::int64_t>{kOdd, kOdd + 1}));
  EXPECT_EQ((Value(wide) - kOdd).dtype(), DType::int64);
  EXPECT_EQ((narrow + 2147483647).to_vector<int>()[0], 2147483647);
  EXPECT_EQ(gemel::testing::message_of<UsageError>([&] { narrow + 3'000'000'000; }),
            "3000000000 beside a tensor of int32: it does not fit; accepted: -2^31 to 2^31 - 1, or a tensor that is cast to another type");
  EXPECT_THROW(wide + 18'000'000'000'000'000'000ull, UsageError);
}

TEST_P(EagerTensor, a_parameter_is_frozen_through_any_handle_and_thawed_by_its_module) {
  nn::Linear layer(2, 3);
  layer.materialise(session);
  const Tensor handle = layer.weight().tensor();
  handle.requires_grad_(false);
  EXPECT_FALSE(layer.weight().tensor().wants_gradient());
  layer.unfreeze();
  EXPECT_TRUE(handle.requires_grad());
  EXPECT_TRUE(Tensor(gemel::full(session, f32({2}), 1)).requires_grad_().requires_grad());
}

TEST_P(EagerTensor, comparisons_give_booleans) {
  const Tensor x = tensor(session, {1., 2., 3.}), y = tensor(session, {3., 2., 1.});
  EXPECT_EQ((x == y).dtype(), DType::boolean);
  EXPECT_EQ((x == y).to_vector<int>(), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ((x != 2).to_vector<int>(), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ((x < y).to_vector<int>(), (std::vector<int>{1, 0, 0}));
  EXPECT_EQ((2 <= x).to_vector<int>(), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ((x > 1.5).to_vector<int>(), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ((x >= y).to(DType::float32).sum().item(), 2);
}

TEST_P(EagerTensor, methods_compute_what_their_names_say) {
  const Tensor x = tensor(session, {{1., -2., 3.}, {4., 5., -6.}});
  EXPECT_EQ(x.sum().item(), 5);
  EXPECT_EQ(x.sum(0).to_vector(), (Floats{5, 3, -3}));
  EXPECT_EQ(x.sum({0, 1}, Keep::yes).shape(), (Shape{1, 1}));
  EXPECT_EQ(x.mean(1).to_vector(), (Floats{2.f / 3, 1}));
  EXPECT_EQ(x.max().item(), 5);
  EXPECT_EQ(x.argmax().item(), 4);
  EXPECT_EQ(x.argmax(1).to_vector<int>(), (std::vector<int>{2, 1}));
  EXPECT_EQ(x.relu().to_vector(), (Floats{1, 0, 3, 4, 5, 0}));
  EXPECT_LE(gemel::testing::relative_error(gemel::read(x.abs().pow(2)), {1, 4, 9, 16, 25, 36}), 2e-6) << "OpenCL's pow is within 16 ulp";
  EXPECT_EQ(x.t().to_vector(), (Floats{1, 4, -2, 5, 3, -6}));
  EXPECT_EQ(x.view({3, -1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(x.view({1, 2, 3}).permute({2, 0, 1}).shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(x.size(-1), 3);
  EXPECT_EQ(x.dim(), 2);
  EXPECT_NEAR(x.softmax(1).sum().item(), 2, 1e-5);  // rows add up to 1, in float32
  EXPECT_NEAR((x.log_softmax(-1).exp() - x.softmax(-1)).abs().max().item(), 0, 1e-5);
}

TEST_P(EagerTensor, matmul_takes_vectors_as_rows_and_columns) {
  const Tensor m = tensor(session, {{1., 2.}, {3., 4.}}), v = tensor(session, {1., 10.});
  EXPECT_EQ(m.matmul(v).to_vector(), (Floats{21, 43}));
  EXPECT_EQ(v.matmul(m).to_vector(), (Floats{31, 42}));
  EXPECT_EQ(v.matmul(v).shape(), Shape());
  EXPECT_EQ(v.matmul(v).item(), 101);
  EXPECT_EQ(m.matmul(m).to_vector(), (Floats{7, 10, 15, 22}));
}

TEST_P(EagerTensor, values_and_modules_mix_with_tensors) {
  nn::Linear layer(2, 3);
  layer.materialise(session);
  const Tensor x = tensor(session, {{1., 2.}});
  const Tensor y = layer(x);
  EXPECT_EQ(y.shape(), (Shape{1, 3}));
  const Value v = x;
  EXPECT_EQ((v + x).to_vector(), (Floats{2, 4}));
  EXPECT_EQ((x * v).to_vector(), (Floats{1, 4}));
  EXPECT_EQ(Tensor(gemel::concatenate({x, v}, 0)).shape(), (Shape{2, 2}));
  y.sum().backward();
  EXPECT_EQ(Tensor(layer.weight().value).grad().to_vector(), (Floats{1, 1, 1, 2, 2, 2}));
}

TEST_P(EagerTensor, item_wants_exactly_one_element) {
  EXPECT_EQ(tensor(session, {{2.5}}).item(), 2.5);
  expect_error<UsageError>([&] { tensor(session, {1, 2}).item(); }, "item: int64 [2] has 2 elements; accepted: one");
  expect_error<UsageError>([] { Tensor().item(); }, "undefined");
}

TEST_P(EagerTensor, item_of_a_symbolic_tensor_points_to_cond_and_while_loop) {
  expect_error<UsageError>(
      [&] {
        capture(session, {f32({})}, [](const Values& in) {
          Tensor(in[0]).item();
          return in;
        });
      },
      "use cond and while_loop");
}

// ---- in place
TEST_P(EagerTensor, copies_of_a_handle_are_one_tensor) {
  const Tensor a = tensor(session, {1., 2.}), b = a;
  a += 1;
  EXPECT_EQ(b.to_vector(), (Floats{2, 3}));
  a.requires_grad_();
  EXPECT_TRUE(b.requires_grad());
}

TEST_P(EagerTensor, in_place_operators_write_the_memory_that_views_share) {
  const Tensor x = tensor(session, {{1., 2.}, {3., 4.}}), flat = x.view({4}), apart = x.clone();
  flat.add_(10);
  EXPECT_EQ(x.to_vector(), (Floats{11, 12, 13, 14}));
  x.mul_(2).sub_(tensor(session, {2., 4.}));
  EXPECT_EQ(flat.to_vector(), (Floats{20, 20, 24, 24}));
  x.div_(4);
  EXPECT_EQ(flat.to_vector(), (Floats{5, 5, 6, 6}));
  x.add_(flat.view({2, 2}), 0.5);
  EXPECT_EQ(x.to_vector(), (Floats{7.5, 7.5, 9, 9}));
  x.detach().zero_();
  EXPECT_EQ(flat.to_vector(), (Floats{0, 0, 0, 0}));
  x.copy_(tensor(session, {1, 2}));
  EXPECT_EQ(flat.to_vector(), (Floats{1, 2, 1, 2}));
  EXPECT_EQ(x.fill_(3).sum().item(), 12);
  EXPECT_EQ(apart.to_vector(), (Floats{1, 2, 3, 4}));
}

TEST_P(EagerTensor, in_place_results_keep_shape_and_type) {
  expect_error<ShapeError>([&] { tensor(session, {1, 2}).mul_(0.5); }, "mul_: the result is float32 [2]; accepted: int64 [2]");
  expect_error<ShapeError>([&] { tensor(session, {1., 2.}).add_(ones(session, {2, 2})); }, "add_: the result is float32 [2, 2]");
}

TEST_P(EagerTensor, a_leaf_that_requires_grad_changes_only_under_no_grad) {
  const Tensor w = wanting({1, 2});
  expect_error<UsageError>([&] { w.add_(1); },
                           "add_: a leaf variable that requires grad is being used in an in-place operation, float32 [2]; accepted: "
                           "inside a NoGrad scope, or on its detach()");
  expect_error<UsageError>([&] { w.view({2, 1}).zero_(); }, "fill_: a view of a leaf variable that requires grad");
  EXPECT_EQ(w.to_vector(), (Floats{1, 2}));
  {
    const NoGrad no_grad(session);
    w -= 0.5;
    EXPECT_FALSE((w * 2).requires_grad());
    const EnableGrad enable(session);
    EXPECT_TRUE((w * 2).requires_grad());
  }
  EXPECT_EQ(w.to_vector(), (Floats{0.5, 1.5}));
  EXPECT_TRUE(w.requires_grad() && w.is_leaf());
}

}  // namespace
}  // namespace gemel::eager::testing
