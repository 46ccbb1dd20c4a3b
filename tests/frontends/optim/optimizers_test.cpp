// Optimizers against PyTorch's formulas, written out in double; schedules; clipping. In the reference session.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "frontends/optim/clip.h"
#include "frontends/optim/learning_rate_schedule.h"
#include "frontends/optim/optimizer.h"
#include "frontends/optim/scheduler.h"
#include "tests/support/message_of.h"

namespace gemel::optim {
namespace {

using testing::message_of;
using Reals = std::vector<double>;
constexpr int kSteps = 5;
constexpr double kRate = 0.1;
// Hyperparameters are float32 tensors, here rounded to 2^-24 of themselves; everything else is double.
constexpr double kTolerance = 1e-6;

/// The gradient of step t: different at every step, of both signs.
Reals gradient_at(int t) { return {0.3 * t - 0.7, -0.2, 0.05 * t}; }

/// Five steps on one parameter [3] that starts at {1, -2, 0.5}.
Reals trained(Session& session, const std::function<std::unique_ptr<Optimizer>(std::vector<Group>)>& make) {
  const Value p = leaf(session.tensor(f32({3}), Reals{1, -2, 0.5}));
  const auto optimizer = make({{{{"p", p}}}});
  for (int t = 1; t <= kSteps; ++t) optimizer->step({session.tensor(f32({3}), gradient_at(t))}, kRate);
  EXPECT_EQ(optimizer->steps(), kSteps);
  return read(p);
}

/// The same by a formula for one element: f(p, g, t), with state of its own.
Reals expected(const std::function<std::function<double(double p, double g, int t)>()>& formula) {
  Reals p{1, -2, 0.5};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto f = formula();
    for (int t = 1; t <= kSteps; ++t) p[i] = f(p[i], gradient_at(t)[i], t);
  }
  return p;
}

void expect_near(const Reals& got, const Reals& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], kTolerance);
}

auto maker(std::string_view name, const Settings& settings) {
  return [name, settings](std::vector<Group> groups) { return make(name, std::move(groups), settings); };
}

TEST(Optim, of_no_parameters_counts_steps_and_has_no_hyperparameters) {
  const auto optimizer = make("sgd", std::vector<Group>{});
  optimizer->zero_grad();
  optimizer->step();
  EXPECT_EQ(optimizer->steps(), 1);
  EXPECT_EQ(message_of<UsageError>([&] { optimizer->hyper(0.1); }), "optimizer: it has no parameters; accepted: one at least");
}

TEST(Optim, says_what_it_keeps_for_each_parameter_and_whether_it_updates_rows) {
  const auto is = [](std::string_view name, const Settings& settings, std::size_t slots, bool updates_rows) {
    const auto optimizer = make(name, {}, settings);
    EXPECT_EQ(optimizer->slots(), slots) << name;
    EXPECT_EQ(optimizer->updates_rows(), updates_rows) << name;
  };
  is("sgd", {}, 0, true);
  is("sgd", {.momentum = 0.5}, 1, false);
  is("momentum", {}, 1, false);
  is("momentum", {.momentum = 0}, 0, true);
  is("nesterov", {}, 1, false);
  is("adam", {}, 2, true);
  is("adamw", {}, 2, true);
  is("rmsprop", {}, 1, false);
  is("rmsprop", {.momentum = 0.9}, 2, false);
  const auto session = Session::reference();
  const Value p = leaf(session->tensor(f32({3}), Reals{1, 2, 3}));
  const auto adam = make("adam", {{{{"p", p}}}});
  EXPECT_EQ(adam->state().size(), adam->slots());
}

TEST(Optim, sgd_with_weight_decay) {
  const auto session = Session::reference();
  expect_near(trained(*session, maker("sgd", {.weight_decay = 0.02})),
              expected([] { return [](double p, double g, int) { return p - kRate * (g + 0.02 * p); }; }));
}

TEST(Optim, momentum_starts_with_the_first_gradient) {
  const auto session = Session::reference();
  expect_near(trained(*session, maker("momentum", {.weight_decay = 0.02})), expected([] {
                return [v = 0.0](double p, double g, int) mutable {
                  v = 0.9 * v + g + 0.02 * p;
                  return p - kRate * v;
                };
              }));
}

TEST(Optim, nesterov_looks_ahead) {
  const auto session = Session::reference();
  expect_near(trained(*session, maker("nesterov", {.momentum = 0.8})), expected([] {
                return [v = 0.0](double p, double g, int) mutable {
                  v = 0.8 * v + g;
                  return p - kRate * (g + 0.8 * v);
                };
              }));
}

/// @param decoupled  decay of the parameter, or joined to the gradient
std::function<double(double, double, int)> adam_formula(double joined, double decoupled) {
  return [=, m = 0.0, v = 0.0](double p, double g, int t) mutable {
    p *= 1 - kRate * decoupled;
    g += joined * p;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    return p - kRate / (1 - std::pow(0.9, t)) * m / (std::sqrt(v) / std::sqrt(1 - std::pow(0.999, t)) + 1e-8);
  };
}

TEST(Optim, adam_joins_decay_to_the_gradient) {
  const auto session = Session::reference();
  expect_near(trained(*session, maker("adam", {.weight_decay = 0.02})), expected([] { return adam_formula(0.02, 0); }));
}

TEST(Optim, adamw_shrinks_the_parameter_by_its_default_decay) {
  const auto session = Session::reference();
  expect_near(trained(*session, maker("adamw", {})), expected([] { return adam_formula(0, 0.01); }));
}

TEST(Optim, rmsprop_with_momentum) {
  const auto session = Session::reference();
  expect_near(trained(*session, maker("rmsprop", {.momentum = 0.9, .weight_decay = 0.02})), expected([] {
                return [s = 0.0, v = 0.0](double p, double g, int) mutable {
                  g += 0.02 * p;
                  s = 0.99 * s + 0.01 * g * g;
                  v = 0.9 * v + g / (std::sqrt(s) + 1e-8);
                  return p - kRate * v;
                };
              }));
}

TEST(Optim, rmsprop_without_momentum_keeps_no_velocity) {
  const auto session = Session::reference();
  expect_near(trained(*session, maker("rmsprop", {})), expected([] {
                return [s = 0.0](double p, double g, int) mutable {
                  s = 0.99 * s + 0.01 * g * g;
                  return p - kRate * g / (std::sqrt(s) + 1e-8);
                };
              }));
  const auto slots_with = [&](double momentum) {
    ParameterSet set;
    set.add_parameter("w", leaf(session->tensor(f32({1}), Reals{2})));
    const auto optimizer = make("rmsprop", all_in_one(set), {.momentum = momentum});
    std::vector<std::string> names;
    for (const NamedValue& slot : optimizer->state()) names.push_back(slot.name);
    return names;
  };
  EXPECT_EQ(slots_with(0), std::vector<std::string>{"variance.w"});
  EXPECT_EQ(slots_with(0.9), (std::vector<std::string>{"variance.w", "velocity.w"}));
}

TEST(Optim, groups_have_rates_and_decays_of_their_own) {
  const auto session = Session::reference();
  ParameterSet set;
  set.add_parameter("weight", leaf(session->tensor(f32({1, 1}), Reals{2})));
  set.add_parameter("frozen", session->tensor(f32({1, 1}), Reals{2}));
  set.add_parameter("bias", leaf(session->tensor(f32({1}), Reals{2})));
  std::vector<Group> groups = no_decay_on_vectors(set);
  groups[1].rate_factor = 10;
  Sgd sgd(groups, {.weight_decay = 0.5});
  ASSERT_EQ(sgd.parameters().size(), 2u);
  sgd.step({session->tensor(f32({1, 1}), Reals{1}), session->tensor(f32({1}), Reals{1})}, kRate);
  EXPECT_NEAR(read(*set.find("weight"))[0], 2 - kRate * (1 + 0.5 * 2), kTolerance);
  EXPECT_NEAR(read(*set.find("bias"))[0], 2 - 10 * kRate, kTolerance);
  EXPECT_EQ(read(*set.find("frozen"))[0], 2);
  EXPECT_EQ(all_in_one(set).at(0).parameters.size(), 2u);
}

TEST(Optim, a_parameter_without_gradient_stays) {
  const auto session = Session::reference();
  const Value a = leaf(session->tensor(f32({1}), Reals{1})), b = leaf(session->tensor(f32({1}), Reals{1}));
  Sgd sgd({{{{"a", a}, {"b", b}}}}, {.weight_decay = 0.5});
  sgd.step({Value(), session->tensor(f32({1}), Reals{1})}, kRate);
  EXPECT_EQ(read(a)[0], 1);
  EXPECT_NE(read(b)[0], 1);
}

TEST(Optim, what_varies_between_steps_is_a_small_tensor) {
  const auto session = Session::reference();
  const auto adam = make("adam", {{{{"p", leaf(session->tensor(f32({1}), Reals{1}))}}, 2.0}});
  EXPECT_EQ(adam->hyper_specs(), (Specs{f32({1, 4})}));
  const std::vector<float> numbers = adam->hyperparameters()->numbers(0, kRate, 3);
  EXPECT_EQ(numbers, (std::vector<float>{0.2f, 0, static_cast<float>(1 - std::pow(0.9, 3)), static_cast<float>(1 - std::pow(0.999, 3))}));
  adam->advance();
  adam->advance();
  EXPECT_EQ(read(adam->hyper(kRate)[0]), Reals(numbers.begin(), numbers.end()));
}

TEST(Optim, state_moves_to_another_optimizer) {
  const auto session = Session::reference();
  const auto run = [&](bool resumed) {
    const Value p = leaf(session->tensor(f32({3}), Reals{1, -2, 0.5}));
    auto optimizer = make("adam", {{{{"p", p}}}});
    for (int t = 1; t <= kSteps; ++t) {
      if (resumed && t == 3) {
        auto next = make("adam", {{{{"p", p}}}});
        next->load_state(optimizer->state(), optimizer->steps());
        optimizer = std::move(next);
      }
      optimizer->step({session->tensor(f32({3}), gradient_at(t))}, kRate);
    }
    return read(p);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Optim, a_state_that_does_not_fit_is_refused_by_name) {
  const auto session = Session::reference();
  const auto adam = make("adam", {{{{"p", leaf(session->tensor(f32({3}), Reals{1, 2, 3}))}}}});
  EXPECT_EQ(adam->state().at(0).name, "mean.p");
  const std::vector<NamedValue> given{{"mean.p", session->empty(f32({2}))}, {"mean.q", session->empty(f32({3}))}};
  EXPECT_EQ(message_of<DataError>([&] { adam->load_state(given, 1); }),
            "optimizer state: it does not fit; mean.p is float32 [2], accepted: float32 [3]; variance.p is missing; mean.q is unknown");
  EXPECT_EQ(adam->steps(), 0);
}

TEST(Optim, wrong_uses_are_refused) {
  const auto session = Session::reference();
  const Value p = leaf(session->tensor(f32({1}), Reals{1}));
  const std::vector<Group> one{{{{"p", p}}}}, twice{{{{"p", p}}}, {{{"p", p}}}};
  EXPECT_THROW(make("adagrad", one), UsageError);
  EXPECT_THROW(make("adam", one, {.momentum = 0.9}), UsageError);
  EXPECT_THROW(make("nesterov", one, {.momentum = 0.0}), UsageError);
  EXPECT_THROW(make("sgd", {Group{}}), UsageError);
  EXPECT_THROW(make("sgd", twice), UsageError);
  const auto sgd = make("sgd", one);
  EXPECT_THROW(sgd->apply_updates({}, sgd->hyper(kRate)), UsageError);
  EXPECT_EQ(names().size(), 6u);
}

TEST(Schedules, are_functions_of_progress) {
  EXPECT_EQ(rate_at(Schedule::constant, 0.5, {99, 100, 990, 1000}), 0.5);
  EXPECT_EQ(rate_at(Schedule::step, 0.5, {29, 90, 290, 900}), 0.5);
  EXPECT_NEAR(rate_at(Schedule::step, 0.5, {30, 90, 300, 900}), 0.05, 1e-15);
  EXPECT_NEAR(rate_at(Schedule::step, 0.5, {65, 90, 650, 900}), 0.005, 1e-15);
  EXPECT_EQ(rate_at(Schedule::cosine, 0.5, {0, 10, 7, 100}), 0.5);
  EXPECT_NEAR(rate_at(Schedule::cosine, 0.5, {5, 10, 57, 100}), 0.25, 1e-15);
  EXPECT_NEAR(rate_at(Schedule::cosine, 0.5, {1, 0, 50, 100}), 0.25, 1e-15) << "measured in steps";
  EXPECT_NEAR(rate_at(Schedule::cosine, 0.5, {10, 10, 100, 100}), 0, 1e-15);
  for (const std::string_view name : schedule_names()) EXPECT_EQ(schedule_names()[static_cast<std::size_t>(parse_schedule(name))], name);
  EXPECT_EQ(testing::message_of<UsageError>([] { parse_schedule("linaer"); }), "schedule: linaer is unknown; accepted: constant, step, cosine, linear");
}

/// transformers.get_linear_schedule_with_warmup(optimizer, 4, 10) and its warmup_ratio.
TEST(Schedules, linear_ones_warm_up_by_steps_or_by_a_share_of_the_run) {
  const auto rate = [](std::int64_t step, const Warmup& warmup) { return rate_at(Schedule::linear, 0.5, {0, 2, step, 10}, warmup); };
  EXPECT_EQ(rate(0, {}), 0.5);
  EXPECT_NEAR(rate(9, {}), 0.05, 1e-15);
  EXPECT_EQ(rate(0, {.steps = 4}), 0);
  EXPECT_NEAR(rate(3, {.steps = 4}), 0.375, 1e-15);
  EXPECT_NEAR(rate(7, {.steps = 4}), 0.25, 1e-15);
  for (std::int64_t step = 0; step < 10; ++step) EXPECT_EQ(rate(step, {.share = 0.31}), rate(step, {.steps = 4})) << step;
  EXPECT_EQ(testing::message_of<UsageError>([&] { rate(0, {.steps = 11}); }), "scheduler: a warm-up of 11 of 10 steps; accepted: 0..10");
}

TEST(Schedules, move_the_optimizers_rate) {
  const auto session = Session::reference();
  const auto sgd = make("sgd", {{{{"p", leaf(session->tensor(f32({1}), Reals{1}))}}}});
  sgd->set_rate(0.5);
  Scheduler warm(*sgd, linear_decay(10, 4));
  Reals rates;
  for (int t = 0; t <= 10; ++t, warm.step()) rates.push_back(sgd->rate());
  const Reals wanted{0, 0.125, 0.25, 0.375, 0.5, 0.5 * 5 / 6, 0.5 * 4 / 6, 0.25, 0.5 * 2 / 6, 0.5 / 6, 0};
  for (std::size_t t = 0; t < wanted.size(); ++t) EXPECT_NEAR(rates[t], wanted[t], 1e-15) << t;
  warm.go_to(7);
  EXPECT_NEAR(sgd->rate(), 0.25, 1e-15) << "a run that goes on";
  sgd->set_rate(1);
  Scheduler steps(*sgd, step_decay(2, 0.5));
  for (int t = 0; t < 5; ++t) steps.step();
  EXPECT_NEAR(sgd->rate(), 0.25, 1e-15);
  EXPECT_EQ(testing::message_of<UsageError>([] { linear_decay(3, 4); }), "scheduler: a warm-up of 4 of 3 steps; accepted: 0..3");
  EXPECT_THROW(cosine_decay(0), UsageError);
}

TEST(Optim, a_name_of_two_parameters_is_told_from_a_parameter_in_two_groups) {
  const auto session = Session::reference();
  const Value a = leaf(session->tensor(f32({2}), Reals{1, 2})), b = leaf(session->tensor(f32({1, 1}), Reals{3}));
  const auto refused = [](std::vector<Group> groups) { return testing::message_of<UsageError>([&] { make("sgd", groups); }); };
  EXPECT_EQ(refused({{{{"weight", a}}}, {{{"weight", a}}}}), "optimizer: weight is in two groups; accepted: each parameter once");
  EXPECT_EQ(refused({{{{"weight", a}, {"weight", b}}}}),
            "optimizer: two parameters are named weight, float32 [2] and float32 [1, 1], as those of two modules are; accepted: a name for each, such as "
            "first.weight and second.weight");
}

TEST(Clipping, scales_all_gradients_by_their_common_norm) {
  const auto session = Session::reference();
  const auto two = [&] { return list(session->tensor(f32({2}), Reals{3, 0}), Value(), session->tensor(f32({1, 1}), Reals{-4})); };
  const Clipped small = clip_grad_norm(two(), 10);
  EXPECT_NEAR(read(small.norm)[0], 5, 1e-12);
  EXPECT_EQ(read(small.gradients[0]), (Reals{3, 0}));
  const Clipped large = clip_grad_norm(two(), 1);
  EXPECT_NEAR(read(large.gradients[0])[0], 3 / (5 + 1e-6), 1e-12);
  EXPECT_FALSE(large.gradients[1]);
  EXPECT_NEAR(read(large.gradients[2])[0], -4 / (5 + 1e-6), 1e-12);
  EXPECT_FALSE(clip_grad_norm({Value()}, 1).norm);
  EXPECT_THROW(clip_grad_norm(two(), 0), UsageError);
}

TEST(Clipping, limits_every_element) {
  const auto session = Session::reference();
  const Values clipped = clip_grad_value(list(session->tensor(f32({3}), Reals{3, -0.5, -2}), Value()), 1);
  EXPECT_EQ(read(clipped[0]), (Reals{1, -0.5, -1}));
  EXPECT_FALSE(clipped[1]);
  EXPECT_THROW(clip_grad_value({}, -1), UsageError);
}

}  // namespace
}  // namespace gemel::optim
