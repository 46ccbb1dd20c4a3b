// Gradients that are added to what lies in their places: by what computes them where a rule can, and behind it elsewhere; eager and captured.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/gradients/recompute.h"
#include "engine/gradients/row_gradient.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/eager/eager.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::testing {
namespace {

using Numbers = std::vector<double>;

Value pattern(Session& session, const Shape& shape, double phase) {
  Numbers out;
  for (std::int64_t i = 0; i < shape.elements(); ++i) out.push_back(std::sin(phase + 0.7 * static_cast<double>(i)));
  return session.tensor({shape, DType::float32}, std::span<const double>(out));
}

/// How often each operator runs while this lives.
class Counted {
 public:
  explicit Counted(Session& session)
      : observation_(session.interpreter().observe([this](const OpDef& op, std::span<const Value>, std::span<const Value>) { ++times_[op.name]; })) {}
  int operator[](const std::string& name) const { return times_.contains(name) ? times_.at(name) : 0; }

 private:
  std::map<std::string, int> times_;
  std::shared_ptr<void> observation_;
};

/// A convolution of three-by-three windows, one of single pixels, then a linear layer of either orientation.
struct ConvolutionsThenLinear {
  explicit ConvolutionsThenLinear(Session& session)
      : x(pattern(session, {3, 6, 6, 8}, 0.1)),
        leaves{leaf(pattern(session, {3, 3, 8, 16}, 1)), leaf(pattern(session, {1, 1, 16, 8}, 2)), leaf(pattern(session, {288, 5}, 3)),
               leaf(pattern(session, {7, 5}, 4)), leaf(pattern(session, {7}, 5))} {}
  Value loss(const Values& w) const {
    Value h = conv2d(conv2d(x, w[0], {.padding = {1, 1}}), w[1]);
    h = matmul(matmul(reshape(h, Shape{3, 288}), w[2]), w[3], Transpose::no, Transpose::yes) + w[4];
    return sum(square(h)) * 1e-4;
  }
  Value x;
  Values leaves;
};

Values places_with(Session& session, const Values& leaves, double value) {
  Values out;
  for (const Value& v : leaves) out.push_back(full(session, v.spec(), value));
  return out;
}

void expect_sums(const Values& found, const Values& alone, double before) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Numbers sums = read(found[i]), parts = read(alone[i]);
    for (std::size_t k = 0; k < sums.size(); ++k)
      ASSERT_NEAR(sums[k], before + parts[k], 1e-5 * (before + std::abs(parts[k]))) << "gradient " << i << ", element " << k;
  }
}

TEST(GradientSum, is_added_to_by_what_computes_weight_gradients) {
  Session& session = test_session();
  const ConvolutionsThenLinear net(session);
  const Values alone = gradient({net.loss(net.leaves)}, net.leaves);
  const Values places = places_with(session, net.leaves, 3);
  const Value loss = net.loss(net.leaves);
  const Counted counted(session);
  const Values found = gradient({loss}, net.leaves, {}, {.into = places, .adds = std::vector<bool>(5, true)});
  EXPECT_EQ(counted["add_conv2d_weight_gradient"], 2);
  EXPECT_EQ(counted["add_matmul"], 2);
  EXPECT_EQ(counted["conv2d_weight_gradient"], 0);
  EXPECT_EQ(counted["add"], 1) << "of the bias";
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].storage(), places[i].storage());
  expect_sums(places, alone, 3);
}

TEST(GradientSum, of_some_results_leaves_the_others_to_be_filled) {
  Session& session = test_session();
  const ConvolutionsThenLinear net(session);
  const Values alone = gradient({net.loss(net.leaves)}, net.leaves), places = places_with(session, net.leaves, 3);
  gradient({net.loss(net.leaves)}, net.leaves, {}, {.into = places, .adds = {true, false, false, true, false}});
  for (std::size_t i : {1, 2, 4}) EXPECT_EQ(read(places[i]), read(alone[i]));
  expect_sums({places[0], places[3]}, {alone[0], alone[3]}, 3);
}

TEST(GradientSum, grows_at_every_replay_of_a_captured_pass_to_the_bits_of_eager) {
  Session& session = test_session();
  const ConvolutionsThenLinear net(session);
  const GradientOptions eager{.into = places_with(session, net.leaves, 1), .adds = std::vector<bool>(5, true)};
  const GradientOptions captured{.into = places_with(session, net.leaves, 1), .adds = std::vector<bool>(5, true)};
  Executor executor(session, std::make_shared<const Program>(capture(session, {}, [&](const Values&) {
                      gradient({net.loss(net.leaves)}, net.leaves, {}, captured);
                      return Values{};
                    })));
  for (int replay = 0; replay < 3; ++replay) {
    gradient({net.loss(net.leaves)}, net.leaves, {}, eager);
    executor.run({});
    for (std::size_t i = 0; i < net.leaves.size(); ++i) EXPECT_EQ(read(captured.into[i]), read(eager.into[i])) << i;
  }
}

TEST(GradientSum, counts_all_contributions_and_what_hooks_make_of_them_once) {
  Session& session = test_session();
  const Value w = leaf(pattern(session, {4, 4}, 1)), x = pattern(session, {4, 4}, 2);
  const auto twice = [&] { return sum(matmul(matmul(x, w), w)); };
  const Numbers alone = read(gradient({twice()}, {w})[0]);
  const Value place = full(session, w.spec(), 2);
  gradient({twice()}, {w}, {}, {.into = {place}, .adds = {true}});
  for (std::size_t k = 0; k < alone.size(); ++k) EXPECT_NEAR(read(place)[k], 2 + alone[k], 1e-5);

  const Value hooked = leaf(pattern(session, {4, 4}, 1));
  const auto hook = eager::Tensor(hooked).register_hook([](const eager::Tensor& g) { return g * 10.0; });
  const Numbers plain = read(gradient({sum(matmul(x, w))}, {w})[0]);
  const Value sums = full(session, w.spec(), 2);
  gradient({sum(matmul(x, hooked))}, {hooked}, {}, {.into = {sums}, .adds = {true}});
  for (std::size_t k = 0; k < plain.size(); ++k) EXPECT_NEAR(read(sums)[k], 2 + 10 * plain[k], 1e-4);
}

TEST(GradientSum, takes_rows_and_what_is_computed_again) {
  Session& session = test_session();
  const Value table = leaf(pattern(session, {4, 2}, 1)), place = full(session, table.spec(), 7);
  set_gradient_form(table, GradientForm::rows);
  const std::int64_t words[] = {3, 1, 3};
  gradient({sum(embedding(table, session.tensor(i64({3}), std::as_bytes(std::span(words)))))}, {table}, {}, {.into = {place}, .adds = {true}});
  EXPECT_EQ(read(place), (Numbers{7, 7, 8, 8, 7, 7, 9, 9}));

  const ConvolutionsThenLinear net(session);
  const Values alone = gradient({net.loss(net.leaves)}, net.leaves), places = places_with(session, net.leaves, 3);
  const Values again = recomputed([&](const Values& w, const Values&) { return Values{net.loss(w)}; }, net.leaves, {});
  const Counted counted(session);
  gradient(again, net.leaves, {}, {.into = places, .adds = std::vector<bool>(5, true)});
  EXPECT_EQ(counted["add_matmul"], 2);
  expect_sums(places, alone, 3);
}

TEST(GradientSum, of_two_eager_passes_is_made_in_the_slab) {
  Session& session = test_session();
  const ConvolutionsThenLinear net(session);
  ParameterSlab::pack(net.leaves);
  const Values alone = gradient({net.loss(net.leaves)}, net.leaves);
  eager::backward({eager::Tensor(net.loss(net.leaves))});
  const Counted counted(session);
  eager::backward({eager::Tensor(net.loss(net.leaves))});
  EXPECT_EQ(counted["add_matmul"], 2);
  EXPECT_EQ(counted["assign"], 0);
  for (std::size_t i = 0; i < net.leaves.size(); ++i) {
    const Numbers sums = read(net.leaves[i].node()->accumulated), once = read(alone[i]);
    for (std::size_t k = 0; k < sums.size(); ++k) ASSERT_NEAR(sums[k], 2 * once[k], 1e-5 * std::abs(once[k]) + 1e-9);
  }
}

TEST(GradientSum, is_refused_where_it_is_not_said_of_each_result) {
  Session& session = test_session();
  const Value w = leaf(full(session, f32({2}), 1));
  EXPECT_EQ(message_of<UsageError>([&] {
              gradient({sum(w)}, {w}, {}, {.into = {full(session, f32({2}), 0)}, .adds = {true, true}});
            }),
            "gradient: whether to add is said of 2 results, memory is given for 1; accepted: as many, or of none");
}

}  // namespace
}  // namespace gemel::testing
