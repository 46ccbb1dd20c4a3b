// Conditions and loops, with gradients, in every interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/base/error.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "frontends/graph/compile.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/finite_differences.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

// Central differences in double: error about step^2 and 1e-16 / step of the terms.
constexpr double kDifferences = 1e-6;
// A few chained float32 operations, relative to the largest element.
constexpr double kDevice = 5e-5;

Value scalar(Session& session, double value) { return full(session, f32({}), value); }

void expect_right(const Scalar& f, const Specs& specs, double scale = 1) {
  const auto e = against_differences(f, specs, scale);
  EXPECT_LE(e.first, kDifferences);
  EXPECT_LE(e.second, kDifferences);
}

Scalar branching(double threshold) {
  return [threshold](const Values& v) {
    return weighted(cond(
        less(sum(v[0]), scalar(v[0].session(), threshold)), [&]() -> Values { return {exp(v[0]) * v[1]}; },
        [&]() -> Values { return {v[0] * (v[0] * v[2])}; })[0]);
  };
}

/// c = exp(0.2 c W + 0.3 c) while the sum of squares is below a limit.
Values loop(const Value& start, const Value& w, double limit) {
  Session& s = start.session();
  const Value one = full(s, i64({}), 1), most = scalar(s, limit);
  return while_loop([&](const Values& c) { return less(sum(c[1] * c[1]), most); },
                    [&](const Values& c) -> Values {
                      return {c[0] + one, exp(matmul(c[1], w) * 0.2 + c[1] * 0.3)};
                    },
                    {full(s, i64({}), 0), start}, 8);
}
Scalar looping(double limit) {
  return [limit](const Values& v) { return weighted(loop(v[0], v[1], limit)[1]); };
}

const Specs branch_specs{f32({2, 3}), f32({2, 3}), f32({2, 3})}, loop_specs{f32({2, 3}), f32({3, 3})};

TEST(Control, gradients_of_the_branch_that_runs_match_differences) {
  expect_right(branching(100), branch_specs);
  expect_right(branching(-100), branch_specs);
}

class ControlTrips : public ::testing::TestWithParam<std::pair<double, int>> {};

TEST_P(ControlTrips, gradients_of_a_loop_match_differences) {
  const auto [limit, trips] = GetParam();
  const auto session = Session::reference();
  const Values v = leaves_for(*session, loop_specs, noise_for(loop_specs, 11, 0.5));
  EXPECT_EQ(read(loop(v[0], v[1], limit)[0])[0], trips);
  expect_right(looping(limit), loop_specs, 0.5);
}
INSTANTIATE_TEST_SUITE_P(none_some_and_all, ControlTrips, ::testing::Values(std::pair{0.1, 0}, std::pair{7.0, 2}, std::pair{1e9, 8}));

TEST(Control, loops_and_branches_nest) {
  expect_right(
      [](const Values& v) {
        return cond(
            full(v[0].session(), b8({}), 1), [&]() -> Values { return {looping(1e9)(v)}; }, [&]() -> Values { return {sum(v[0])}; })[0];
      },
      loop_specs, 0.5);
  expect_right(
      [](const Values& v) {
        Session& s = v[0].session();
        const Value zero = full(s, i64({}), 0), one = full(s, i64({}), 1), three = full(s, i64({}), 3);
        return weighted(while_loop([&](const Values& c) { return less(c[0], three); },
                                   [&](const Values& c) -> Values {
                                     const Values next = cond(
                                         less(c[0], one), [&]() -> Values { return {tanh(matmul(c[1], v[1]))}; },
                                         [&]() -> Values { return {sin(c[1]) * v[0]}; });
                                     return {c[0] + one, next[0]};
                                   },
                                   {zero, v[0]}, 5)[1]);
      },
      loop_specs, 0.5);
}

TEST(Control, detached_and_leaf_cut_inside_a_branch_as_outside) {
  const auto cut = [](const Values& v) { return v[1].detached() * exp(v[0]) + v[1] * leaf(v[0]); };
  const Scalar outside = [&](const Values& v) { return weighted(cut(v)); };
  const Scalar inside = [&](const Values& v) {
    return weighted(cond(
        full(v[0].session(), b8({}), 1), [&]() -> Values { return {cut(v)}; }, [&]() -> Values { return {v[0]}; })[0]);
  };
  const Specs specs{f32({2, 3}), f32({2, 3})};
  const Data x = noise_for(specs, 1), along = noise_for(specs, 3);
  const auto session = Session::reference();
  // The same terms in double, added in another order.
  EXPECT_LE(relative_error(first_order(*session, inside, specs, x), first_order(*session, outside, specs, x)), 1e-14);
  EXPECT_LE(relative_error(hessian_vector(*session, inside, specs, x, along), hessian_vector(*session, outside, specs, x, along)), 1e-14);
}

TEST(Control, a_body_may_use_parts_of_one_slab) {
  const auto session = Session::reference();
  const Value slab = session->tensor(f32({4}), std::vector<double>{1, 2, 3, 4});
  const Value a = leaf(slab.view(f32({2}), 0)), b = leaf(slab.view(f32({2}), 2));
  const Values y = cond(
      full(*session, b8({}), 1), [&]() -> Values { return {a * b}; }, [&]() -> Values { return {a}; });
  EXPECT_EQ(read(y[0]), (std::vector<double>{3, 8}));
  const Values g = gradient({sum(y[0])}, {a, b});
  EXPECT_EQ(read(g[0]), (std::vector<double>{3, 4}));
  EXPECT_EQ(read(g[1]), (std::vector<double>{1, 2}));
}

TEST(Control, a_value_and_its_reshape_are_two_values_of_a_body) {
  expect_right(
      [](const Values& v) {
        const Value x = v[0] * v[1], flat = reshape(x, Shape{6});
        return weighted(cond(
            full(v[0].session(), b8({}), 1),
            [&]() -> Values {
              return {reshape(flat, Shape{2, 3}) * x};
            },
            [&]() -> Values { return {x}; })[0]);
      },
      {f32({2, 3}), f32({2, 3})});
}

TEST(Control, two_leaves_over_one_storage_get_their_own_gradients) {
  const auto session = Session::reference();
  const Value x = session->tensor(f32({2}), std::vector<double>{1, 2});
  const Value a = leaf(x), b = leaf(x);
  const Values y = cond(
      full(*session, b8({}), 1), [&]() -> Values { return {a * b * b}; }, [&]() -> Values { return {a}; });
  const Values g = gradient({sum(y[0])}, {a, b});
  EXPECT_EQ(read(g[0]), (std::vector<double>{1, 4}));  // b b
  EXPECT_EQ(read(g[1]), (std::vector<double>{2, 8}));  // 2 a b
}

/// The last four of `trips` draws, of 8 numbers each, oldest first.
Values four_draws(Session& s, const std::function<Value(const Value&)>& draw, std::int64_t trips) {
  const Value nothing = full(s, f32({8}), 0), yes = full(s, b8({}), 1);
  return while_loop([&](const Values&) { return yes; },
                    [&](const Values& c) -> Values {
                      return {c[1], c[2], c[3], draw(c[3])};
                    },
                    {nothing, nothing, nothing, nothing}, trips);
}

TEST(Control, every_trip_draws_from_another_state) {
  const auto session = Session::reference();
  const auto uniform = [&](const Value&) { return random_uniform(*session, Shape{8}, 0, 1); };
  const auto nested = [&](const Value& last) {  // the second of two trips of an inner loop
    return while_loop([&](const Values&) { return full(*session, b8({}), 1); }, [&](const Values&) -> Values { return {uniform(last)}; }, {last}, 2)[0];
  };
  for (const std::function<Value(const Value&)>& draw : {std::function<Value(const Value&)>(uniform), std::function<Value(const Value&)>(nested)}) {
    session->begin_random_step(3);
    const Values seen = four_draws(*session, draw, 4);
    std::set<std::vector<double>> different{read(uniform({}))};  // nor does what follows the loop draw the same
    for (const Value& v : seen) different.insert(read(v));
    EXPECT_EQ(different.size(), 5u);
    session->begin_random_step(3);
    const Values again = four_draws(*session, draw, 4);
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(read(again[i]), read(seen[i]));
  }
}

/// Dropout of what is carried, twice: y / x is the product of two masks, 0 or 4.
Value dropped_twice(const Value& x) {
  const Value yes = full(x.session(), b8({}), 1);
  return while_loop([&](const Values&) { return yes; }, [](const Values& c) -> Values { return {dropout(c[0], 0.5)}; }, {x}, 2)[0];
}

TEST(Control, the_gradient_of_a_loop_draws_the_masks_of_its_trips_again) {
  const auto session = Session::reference();
  const Value x = leaf(full(*session, f32({256}), 1));
  const Value y = dropped_twice(x);
  const std::vector<double> kept = read(y);
  EXPECT_EQ(read(gradient({sum(y)}, {x})[0]), kept);
  // A quarter of 256 is kept by two masks, a half by one that is drawn twice: 64 +- 7 and 128 +- 8.
  EXPECT_LT(std::count(kept.begin(), kept.end(), 4.0), 96);
}

TEST(Control, a_compiled_gradient_is_captured_once_whatever_leaves_it_makes) {
  const auto session = Session::reference();
  const Value w = leaf(full(*session, f32({3, 3}), 0.2)), x = full(*session, f32({2, 3}), 0.1);
  const Value yes = full(*session, b8({}), 1);
  const auto expect_once = [&](const graph::Function& f) {
    graph::Compiled compiled = graph::compile(*session, f);
    const std::vector<double> first = read(compiled({x})[0]);
    EXPECT_EQ(read(compiled({x})[0]), first);
    EXPECT_EQ(compiled.plans().size(), 1u);
  };
  expect_once([&](const Values& in) { return gradient({sum(loop(in[0], w, 7)[1])}, {w}); });
  expect_once([&](const Values& in) {
    return gradient({sum(cond(
                        yes, [&]() -> Values { return {matmul(in[0], w)}; }, [&]() -> Values { return {in[0]}; })[0])},
                    {w});
  });
  expect_once([](const Values& in) {
    const Value own = leaf(in[0]);
    return gradient({sum(square(own))}, {own});
  });
}

TEST(Control, a_compiled_gradient_is_captured_anew_where_its_leaf_is_another) {
  const auto session = Session::reference();
  Value w = leaf(full(*session, f32({2}), 3));
  graph::Compiled gradients = graph::compile(*session, [&](const Values& in) { return gradient({sum(square(in[0] * w))}, {w}); });
  const Value x = full(*session, f32({2}), 1);
  EXPECT_EQ(read(gradients({x})[0]), (std::vector<double>{6, 6}));
  w = leaf(full(*session, f32({2}), 5));
  EXPECT_EQ(read(gradients({x})[0]), (std::vector<double>{10, 10}));
}

TEST(Control, integer_values_pass_through_without_a_gradient) {
  const auto session = Session::reference();
  const Value x = leaf(session->tensor(f32({2}), std::vector<double>{1, 2}));
  const Value n = full(*session, i64({}), 7);
  const Values y = cond(
      full(*session, b8({}), 1),
      [&]() -> Values {
        return {x * x, n};
      },
      [&]() -> Values {
        return {x, n};
      });
  EXPECT_EQ(read(y[1])[0], 7);
  EXPECT_EQ(read(gradient({sum(y[0])}, {x})[0]), (std::vector<double>{2, 4}));
}

TEST(Control, refusals_say_what_is_accepted) {
  const auto session = Session::reference();
  const Value x = session->tensor(f32({2}), std::vector<double>{1, 2}), yes = full(*session, b8({}), 1);
  EXPECT_EQ(message_of<UsageError>([&] {
              cond(
                  yes,
                  [&]() -> Values {
                    assign(x, x * 2.0);
                    return {x};
                  },
                  [&]() -> Values { return {x}; });
            }),
            "assign: writes a value from outside this body; accepted: a pure body, which its gradient can run again");
  EXPECT_EQ(message_of<ShapeError>([&] {
              cond(
                  yes, [&]() -> Values { return {x}; }, [&]() -> Values { return {sum(x)}; });
            }),
            "conditional: value 0 is float32 [2] from then, float32 [] from otherwise; accepted: equal specs");
  EXPECT_EQ(message_of<ShapeError>([&] { while_loop([&](const Values& c) { return c[0]; }, [](const Values& c) { return c; }, {x}, 3); }),
            "while: the condition returns float32 [2]; accepted: one bool []");
  EXPECT_EQ(message_of<ShapeError>([&] { while_loop([&](const Values&) { return yes; }, [](const Values& c) -> Values { return {sum(c[0])}; }, {x}, 3); }),
            "while: the body returns float32 [] for carried value 0; accepted: float32 [2]");
  EXPECT_EQ(message_of<UsageError>([&] {
              while_loop(
                  [&](const Values& c) {
                    read(c[0]);
                    return yes;
                  },
                  [](const Values& c) { return c; }, {x}, 3);
            }),
            "read: the value float32 [2] is symbolic, a name in the graph 'graph'; run the graph and fetch it, or use cond and while_loop to decide by it");
  EXPECT_EQ(read(x), (std::vector<double>{1, 2}));
  EXPECT_FALSE(session->capturing());
}

TEST(DeviceControl, gradients_match_the_reference_and_graph_equals_eager_bit_for_bit) {
  Session& device = test_session();
  const auto reference = Session::reference();
  for (const auto& [f, specs] : {std::pair{branching(100), branch_specs}, std::pair{looping(7.0), loop_specs}, std::pair{looping(1e9), loop_specs}}) {
    const Data x = noise_for(specs, 11, 0.5);
    EXPECT_LE(relative_error(first_order(device, f, specs, x), first_order(*reference, f, specs, x)), kDevice);
    const Values v = leaves_for(device, specs, x);
    const auto step = [&, result_of = f](const Values& in) {
      Values leaves;
      for (const Value& i : in) leaves.push_back(leaf(i));
      const Value y = result_of(leaves);
      Values out = gradient({y}, leaves);
      for (std::size_t i = 0; i < out.size(); ++i)
        if (!out[i]) out[i] = full(device, in[i].spec(), 0);
      out.push_back(y.detached());
      return out;
    };
    const Values eager = step(v);
    Executor executor(device, std::make_shared<Program>(capture(device, specs, step)));
    for (int run = 0; run < 2; ++run) {
      const Values graph = executor.run(v);
      for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_EQ(read_bytes(graph[i]), read_bytes(eager[i])) << "run " << run << ", result " << i;
    }
  }
}

TEST(DeviceControl, draws_in_a_loop_are_those_of_the_eager_loop_and_of_the_reference) {
  Session device(shared_test_device());
  const auto reference = Session::reference();
  const auto state_in = [](Session& s) { return s.tensor(i64({4}), std::vector<double>{7, 11, 0, 0}); };
  const auto step = [](const Values& in) -> Values {
    in[0].session().random().begin(in[1]);
    const Value x = leaf(in[0]), y = dropped_twice(x);
    return {y.detached(), gradient({sum(y)}, {x})[0]};
  };
  const auto given = [&](Session& s) -> Values { return {full(s, f32({64}), 1), state_in(s)}; };
  const Values eager = step(given(device)), exact = step(given(*reference));
  Executor executor(device, std::make_shared<Program>(capture(device, {f32({64}), i64({4})}, step)));
  const Values graph = executor.run(given(device));
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_EQ(read_bytes(graph[i]), read_bytes(eager[i]));
    EXPECT_EQ(read(eager[i]), read(exact[i]));
  }
}

TEST(DeviceControl, an_executor_is_kept_as_long_as_its_program) {
  Session& device = test_session();
  auto program = std::make_shared<const Program>(capture(device, {f32({3})}, [](const Values& v) -> Values { return {exp(v[0])}; }));
  const Executor* first = &device.executor(program);
  EXPECT_EQ(&device.executor(program), first);
  const std::weak_ptr<const Program> watched = program;
  program = nullptr;
  EXPECT_TRUE(watched.expired()) << "the cache keeps the program";
}

}  // namespace
}  // namespace gemel::testing
