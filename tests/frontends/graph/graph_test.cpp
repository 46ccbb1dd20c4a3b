// The graph front end: placeholders, variables, names and runs.
#include "frontends/graph/graph.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/graph/runner.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::graph {
namespace {

using testing::message_of;
using List = std::vector<double>;

Value numbers(Session& session, const List& v) { return session.tensor({Shape{static_cast<std::int64_t>(v.size())}, DType::float32}, v); }

/// From the host, as loading weights does.
void overwrite(const Value& to, const std::array<float, 2>& numbers) { write(to, std::as_bytes(std::span(numbers))); }

/// A counter that `increment` raises by x, and its square read after that was added.
struct Counter {
  std::unique_ptr<Session> session = Session::reference();
  Graph graph{*session, "counting"};
  Value x, count, before, after;
  Operation increment;
  Counter() {
    const auto building = graph.as_default();
    x = graph.placeholder(f32({1}), "x");
    count = graph.variable(numbers(*session, {1}), "count", Trainable::no);
    before = square(count);
    increment = graph.assign(count, count + x, "increment");
    after = square(count);
  }
  Value fed(double v) { return numbers(*session, {v}); }
};

TEST(Graph, a_fetch_runs_only_what_it_needs) {
  Counter c;
  Runner runner(c.graph);
  EXPECT_EQ(read(runner.run({}, {c.after})[0]), List{1}) << "reading a variable runs no assignment to it, and needs no feed";
  EXPECT_EQ(read(c.count), List{1});
  const Values both = runner.run({{c.x, c.fed(2)}}, {c.increment, c.before, c.after, c.count});
  EXPECT_FALSE(both[0]);
  EXPECT_EQ(read(both[1]), List{1});
  EXPECT_EQ(read(both[2]), List{9});
  EXPECT_EQ(read(both[3]), List{3});
  EXPECT_EQ(read(c.count), List{3});
}

TEST(Graph, control_dependencies_run_before_and_only_where_needed) {
  Counter c;
  Value waits, free;
  {
    const auto building = c.graph.as_default();
    {
      const auto after = c.graph.control_dependencies({c.increment});
      waits = c.count * 10.0;
    }
    free = c.count * 10.0;
  }
  Runner runner(c.graph);
  EXPECT_EQ(read(runner.run({}, {free})[0]), List{10});
  EXPECT_EQ(read(runner.run({{c.x, c.fed(4)}}, {waits})[0]), List{50});
  EXPECT_EQ(read(c.count), List{5});
}

TEST(Graph, plans_are_kept_for_each_set_of_fetches) {
  Counter c;
  Runner runner(c.graph);
  for (int i = 0; i < 3; ++i) runner.run({}, {c.before});
  runner.run({{c.x, c.fed(1)}}, {c.increment});
  EXPECT_EQ(runner.plans().size(), 2u);
  EXPECT_EQ(c.graph.runs(), 4);
}

TEST(Graph, a_loss_fetched_with_its_update_is_the_one_before_it) {
  Counter c;
  Runner runner(c.graph);
  const auto building = c.graph.as_default();
  const Value w = c.graph.variable(numbers(*c.session, {3}), "w");
  const Value loss = sum(w * w * c.x);
  const Operation step = c.graph.group("step", [&] { assign(w, w - c.graph.gradients(loss, {w})[0]); });
  EXPECT_EQ(read(runner.run({{c.x, c.fed(0.25)}}, {loss, step})[0]), List{2.25});
  EXPECT_EQ(read(w), List{1.5});
}

TEST(Graph, a_run_step_equals_the_same_step_computed_at_once) {
  const auto session = Session::reference();
  const List start{0.5, -1}, x{1, 2, 3, 4};
  Value w = leaf(numbers(*session, start));
  for (int i = 0; i < 5; ++i) {
    const Value g = gradient({sum(square(reshape(session->tensor(f32({2, 2}), x), Shape{2, 2}) * w))}, {w})[0];
    w = leaf((w - g * 0.01).detached());
  }
  Graph graph(*session);
  const auto building = graph.as_default();
  const Value fed = graph.placeholder(f32({2, 2}), "x"), v = graph.variable(numbers(*session, start), "v");
  const Value g = graph.gradients(sum(square(fed * v)), {v})[0];
  const Operation step = graph.assign(v, v - g * 0.01, "step");
  Runner runner(graph);
  for (int i = 0; i < 5; ++i) runner.run({{fed, session->tensor(f32({2, 2}), x)}}, {step});
  EXPECT_EQ(read(v), read(w));
}

TEST(Graph, names_have_scopes_and_are_found) {
  const auto session = Session::reference();
  Graph graph(*session, "named");
  const auto building = graph.as_default();
  Value w, y;
  {
    const NameScope scope(*session, "dense");
    w = graph.variable(numbers(*session, {1, 2}), "w");
    y = graph.named(w * 2.0, "y");
    graph.assign(w, y, "double");
  }
  EXPECT_EQ(graph.value("dense.y").storage(), y.storage());
  EXPECT_EQ(graph.operation("dense.double").name, "dense.double");
  EXPECT_EQ(graph.variables().parameters()[0].name, "dense.w");
  EXPECT_EQ(graph.program().code.back().scope, "dense");
  EXPECT_EQ(message_of<UsageError>([&] { graph.value("z"); }), "graph: no value 'z' in 'named'; accepted: dense.w, dense.y, random_state");
  EXPECT_EQ(message_of<UsageError>([&] { graph.operation("z"); }), "graph: no operation 'z' in 'named'; accepted: dense.double");
  EXPECT_EQ(message_of<UsageError>([&] { graph.named(y, "dense.y"); }), "graph: the name 'dense.y' is taken in 'named'; accepted: a new name");
}

TEST(Graph, an_initial_value_of_the_graph_is_computed_at_once) {
  const auto session = Session::reference();
  Graph graph(*session);
  const auto building = graph.as_default();
  const Value w = graph.variable(full(*session, f32({2}), 3) * 2.0, "w");
  EXPECT_EQ(read(w), (List{6, 6}));
  EXPECT_TRUE(w.wants_gradient());
}

TEST(Graph, refuses_to_write_what_is_fed) {
  Counter c;
  const std::string text = "assign: writes the placeholder 'x' of 'counting', in the memory of what is fed; accepted: a variable, or a copy";
  EXPECT_EQ(message_of<UsageError>([&] { c.graph.assign(c.x, c.count, "back"); }), text);
  EXPECT_EQ(message_of<UsageError>([&] { c.graph.group("back", [&] { assign(c.x, c.count); }); }), text);
  const Value fed = c.fed(2);
  Runner(c.graph).run({{c.x, fed}}, {c.increment});
  EXPECT_EQ(read(fed), List{2});
}

TEST(Graph, gradients_of_what_wants_none_say_what_it_is) {
  Counter c;
  EXPECT_EQ(message_of<UsageError>([&] { c.graph.gradients(c.before, {c.x}); }),
            "gradients: x, float32 [1], is a placeholder; accepted: variables that are trained, and what is computed from them");
  EXPECT_EQ(message_of<UsageError>([&] { c.graph.gradients(c.before, {c.count}); }),
            "gradients: count, float32 [1], is a variable that is not trained; accepted: variables that are trained, and what is computed from them");
  EXPECT_EQ(message_of<UsageError>([&] { c.graph.gradients(c.before, {Value()}); }),
            "gradients: an empty value is given; accepted: variables that are trained, and what is computed from them");
}

TEST(Graph, scopes_of_graphs_may_end_in_any_order) {
  const auto session = Session::reference();
  Graph first(*session, "first");
  auto second = std::make_unique<Graph>(*session, "second");
  const Value own = session->random().state();
  std::optional<Graph::Building> building_first(std::in_place, first), building_second(std::in_place, *second);
  building_first.reset();
  EXPECT_EQ(&session->trace(), &second->trace());
  EXPECT_TRUE(session->random().is_state(second->random_state()));
  building_second.reset();
  EXPECT_FALSE(session->capturing());
  EXPECT_TRUE(session->random().is_state(own));

  building_second.emplace(*second);
  second.reset();
  EXPECT_EQ(read(full(*session, f32({1}), 3)), List{3}) << "a graph that has gone is in force no longer";
  building_second.reset();
  EXPECT_FALSE(session->capturing());
}

TEST(Graph, control_dependencies_may_end_in_any_order_and_after_their_graph) {
  Counter c;
  Runner runner(c.graph);
  std::optional<Graph::ControlDependencies> first(std::in_place, c.graph, std::vector<Fetch>{c.increment}),
      second(std::in_place, c.graph, std::vector<Fetch>{c.before});
  first.reset();
  second.reset();
  {
    const auto building = c.graph.as_default();
    EXPECT_EQ(read(runner.run({}, {c.count * 10.0})[0]), List{10}) << "nothing is incremented";
  }
  auto other = std::make_unique<Graph>(*c.session, "other");
  second.emplace(*other, std::vector<Fetch>{});
  other.reset();
}

TEST(Graph, refuses_feeds_that_do_not_fit) {
  Counter c;
  Runner runner(c.graph);
  EXPECT_EQ(message_of<UsageError>([&] { runner.run({}, {c.increment}); }),
            "run: placeholder 'x' float32 [1] is not fed; accepted: a value for each placeholder that the fetches need");
  EXPECT_EQ(message_of<ShapeError>([&] {
              runner.run({{c.x, numbers(*c.session, {1, 2})}}, {c.increment});
            }),
            "run: placeholder 'x' is fed float32 [2]; accepted: float32 [1]");
  EXPECT_EQ(message_of<UsageError>([&] {
              runner.run({{c.fed(1), c.fed(1)}}, {c.increment});
            }),
            "run: what is fed is no value of 'counting'; accepted: its values, the placeholders random_state, x among them");
  EXPECT_EQ(message_of<UsageError>([&] {
              runner.run({{c.x, c.fed(1)}, {c.x, c.fed(1)}}, {c.increment});
            }),
            "run: placeholder 'x' is fed twice; accepted: once");
  EXPECT_EQ(message_of<UsageError>([&] {
              runner.run({{c.x, c.before}}, {c.increment});
            }),
            "run: placeholder 'x' is fed a name in the graph 'counting'; accepted: a computed value");
  const auto other = Session::reference();
  EXPECT_EQ(message_of<UsageError>([&] {
              runner.run({{c.x, numbers(*other, {1})}}, {c.increment});
            }),
            "run: placeholder 'x' is fed float32 [1] of another session; accepted: tensors of the graph's session");
  EXPECT_EQ(read(c.count), List{1});
}

TEST(Graph, refuses_what_is_of_another_graph) {
  Counter c;
  Graph other(*c.session, "other");
  Runner runner(other);
  EXPECT_EQ(message_of<UsageError>([&] { runner.run({}, {c.before}); }),
            "graph: the value float32 [1] of 'counting' is not of the graph 'other'; accepted: values and operations of this graph");
  EXPECT_EQ(message_of<UsageError>([&] { runner.run({}, {c.increment}); }),
            "graph: the operation 'increment' is not of the graph 'other'; accepted: values and operations of this graph");
  const auto building = other.as_default();
  EXPECT_EQ(message_of<UsageError>([&] { square(c.before); }),
            "square: a value float32 [1] of the graph 'counting' is used in the graph 'other'; accepted: values of this graph, or computed ones");
}

TEST(Graph, a_symbolic_value_used_outside_names_its_graph) {
  Counter c;
  EXPECT_EQ(message_of<UsageError>([&] { square(c.before); }),
            "square: input 0 float32 [1] is a name in the graph 'counting', not a computed tensor; accepted here: values of the eager front end");
  EXPECT_NE(message_of<UsageError>([&] { read(c.before); }).find("a name in the graph 'counting'"), std::string::npos);
}

TEST(Graph, holds_loops_and_branches) {
  const auto session = Session::reference();
  Graph graph(*session);
  const auto building = graph.as_default();
  const Value n = graph.placeholder(i64({}), "n"), w = graph.variable(numbers(*session, {2}), "w");
  const Value one = full(*session, i64({}), 1);
  const Value y = while_loop([&](const Values& c) { return less(c[0], n); },
                             [&](const Values& c) -> Values {
                               return {c[0] + one, c[1] * w};
                             },
                             {full(*session, i64({}), 0), w}, 10)[1];
  const Value dw = graph.gradients(sum(y), {w})[0];
  Runner runner(graph);
  for (int trips : {0, 1, 3}) {
    const Value fed = session->tensor(i64({}), List{static_cast<double>(trips)});
    const Values found = runner.run({{n, fed}}, {y, dw});
    EXPECT_EQ(read(found[0])[0], std::pow(2, trips + 1));
    EXPECT_EQ(read(found[1])[0], (trips + 1) * std::pow(2, trips));
  }
}

TEST(Graph, a_graph_grows_between_runs) {
  const auto session = Session::reference();
  Graph graph(*session);
  const auto numbers_of = [&](const List& v) { return numbers(*session, v); };
  const Value x = graph.placeholder(f32({2}), "x");
  const Value w = graph.variable(numbers_of({0.5, -1}), "w"), b = graph.variable(numbers_of({2, 3}), "b"), c = graph.variable(numbers_of({1, 4}), "c");
  Value loss;
  Operation step;
  {
    const auto building = graph.as_default();
    loss = sum(square(x * w + b) * c);
    step = graph.assign(w, w - graph.gradients(loss, {w})[0] * 0.01, "step");
  }
  Runner runner(graph);
  const Value fed = numbers_of({1, 2});
  for (int i = 0; i < 3; ++i) runner.run({{x, fed}}, {step});
  overwrite(c, {3, 0.5});

  const auto building = graph.as_default();
  const Values g = graph.gradients(loss, {b, c});
  const Value norm = graph.named(sum(square(g[0])), "norm");
  const auto expect_true_to_the_variables = [&] {
    const List wv = read(w), bv = read(b), cv = read(c);
    const Values found = runner.run({{x, fed}}, {g[0], g[1], norm});
    double norm_now = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const double residual = read(fed)[i] * wv[i] + bv[i], db = 2 * residual * cv[i];
      EXPECT_DOUBLE_EQ(read(found[0])[i], db);
      EXPECT_DOUBLE_EQ(read(found[1])[i], residual * residual);
      norm_now += db * db;
    }
    EXPECT_DOUBLE_EQ(read(found[2])[0], norm_now);
  };
  expect_true_to_the_variables();
  // Written and run while the graph is being built, then grown once more.
  overwrite(c, {-1, 0.25});
  for (int i = 0; i < 2; ++i) runner.run({{x, fed}}, {step});
  expect_true_to_the_variables();
  const Value again = graph.gradients(loss, {w})[0];
  const List wv = read(w);
  const Value dw = runner.run({{x, fed}}, {again})[0];
  for (std::size_t i = 0; i < 2; ++i) EXPECT_DOUBLE_EQ(read(dw)[i], 2 * read(fed)[i] * (read(fed)[i] * wv[i] + read(b)[i]) * read(c)[i]);
}

TEST(Graph, a_gradient_asked_for_after_a_write_is_of_what_was_read_also_after_runs) {
  const auto session = Session::reference();
  Graph graph(*session);
  const auto building = graph.as_default();
  const Value v = graph.variable(numbers(*session, {2}), "v"), w = graph.variable(numbers(*session, {3}), "w");
  const Value loss = sum(v * w);
  const Operation step = graph.assign(v, v * 2.0, "step");
  Runner runner(graph);
  for (int i = 0; i < 3; ++i) {
    const Value slope = graph.gradients(loss, {w})[0];
    const List before = read(v);
    EXPECT_EQ(read(runner.run({}, {slope})[0]), before);
    EXPECT_EQ(read(runner.run({}, {slope, step})[0]), before);
    EXPECT_EQ(read(v), List{2 * before[0]});
  }
}

TEST(DeviceGraph, trains_on_the_device) {
  Session session(testing::shared_test_device());
  Graph graph(session);
  const auto building = graph.as_default();
  const Value x = graph.placeholder(f32({4, 1}), "x"), y = graph.placeholder(f32({4, 1}), "y");
  const Value w = graph.variable(full(session, f32({1, 1}), 0), "w"), b = graph.variable(full(session, f32({1}), 0), "b");
  const Value loss = mean(square(matmul(x, w) + b - y));
  const Values g = graph.gradients(loss, {w, b});
  const Operation train = graph.group("train", [&] { assign(w, w - g[0] * 0.1), assign(b, b - g[1] * 0.1); });
  Runner runner(graph);
  const Value xs = session.tensor(f32({4, 1}), List{0, 1, 2, 3}), ys = session.tensor(f32({4, 1}), List{1, 3, 5, 7});
  double last = 0;
  for (int i = 0; i < 200; ++i) last = read(runner.run({{x, xs}, {y, ys}}, {loss, train})[0])[0];
  EXPECT_LT(last, 1e-4);
  EXPECT_NEAR(read(w)[0], 2, 0.01);
}

}  // namespace
}  // namespace gemel::graph
