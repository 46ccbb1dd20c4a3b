// What a run of a graph is fed: any value in place of what computes it, and batches of an extent that was left open.
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/graph/runner.h"
#include "tests/support/message_of.h"

namespace gemel::graph {
namespace {

using testing::message_of;
using List = std::vector<double>;

TEST(GraphFeeds, an_open_extent_that_cannot_be_followed_is_refused) {
  const auto session = Session::reference();
  Graph graph(*session, "open");
  const auto building = graph.as_default();
  const Value x = graph.placeholder(f32({kOpen, 2}), "x"), y = graph.placeholder(f32({2, kOpen}), "y");
  const Value product = matmul(y, x), halves = sum(x) * (2.0 / static_cast<double>(x.shape()[0])), average = mean(square(x));
  const Value slope = gradient({average}, {leaf(x)})[0];
  EXPECT_FALSE(slope) << "a leaf of its own";
  Runner runner(graph);
  const auto fed = [&](std::int64_t rows, std::int64_t columns) {
    return session->tensor(f32({rows, columns}), List(static_cast<std::size_t>(rows * columns), 0.5));
  };
  EXPECT_EQ(runner.run({{x, fed(3, 2)}, {y, fed(2, 3)}}, {product})[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(message_of<ShapeError>([&] {
              runner.run({{x, fed(3, 2)}, {y, fed(2, 4)}}, {product});
            }),
            "run: placeholder 'y' is fed float32 [2, 4], another feed has 3 for ?; accepted: one extent for all");
  EXPECT_EQ(message_of<ShapeError>([&] { runner.run({{x, fed(3, 3)}}, {average}); }), "run: placeholder 'x' is fed float32 [3, 3]; accepted: float32 [?, 2]");
  EXPECT_NE(message_of<UsageError>([&] {
              runner.run({{x, fed(3, 2)}}, {halves});
            }).find("depends on the open extent; accepted: what divides by it itself, as mean does"),
            std::string::npos);
  EXPECT_EQ(message_of<UsageError>([&] { runner.run({}, {average}); }),
            "run: placeholder 'x' float32 [?, 2] is not fed; accepted: a value for each placeholder that the fetches need");
}

TEST(GraphFeeds, the_gradient_of_a_mean_follows_the_open_extent) {
  const auto session = Session::reference();
  Graph graph(*session);
  const auto building = graph.as_default();
  const Value x = graph.placeholder(f32({kOpen, 2}), "x"), w = graph.variable(session->tensor(f32({2}), List{1, 1}), "w");
  const Value g = graph.gradients(mean(x * w), {w})[0];
  Runner runner(graph);
  for (const std::int64_t rows : {1, 3, 8})
    EXPECT_EQ(read(runner.run({{x, session->tensor(f32({rows, 2}), List(std::size_t(2 * rows), 3))}}, {g})[0]), (List{1.5, 1.5})) << rows;
}

TEST(GraphFeeds, any_value_may_be_fed) {
  const auto session = Session::reference();
  Graph graph(*session, "fed");
  const auto building = graph.as_default();
  const auto numbers = [&](List v) { return session->tensor(f32({std::ssize(v)}), v); };
  const Value x = graph.placeholder(f32({2}), "x"), w = graph.variable(numbers({2, 3}), "w", Trainable::no), c = graph.constant(f32({2}), List{10, 20});
  const Value hidden = graph.named(x * w, "hidden"), y = square(hidden) + c;
  const Operation twice = graph.assign(w, w * 2.0, "twice");
  const Value after = w * 1.0;
  Runner runner(graph);
  const auto run = [&](const std::vector<Feed>& feeds, const Value& fetch) { return read(runner.run(feeds, {fetch})[0]); };
  EXPECT_EQ(run({{x, numbers({1, 1})}}, y), (List{14, 29}));
  EXPECT_EQ(run({{hidden, numbers({5, 6})}}, y), (List{35, 56})) << "x is not needed then";
  EXPECT_EQ(run({{x, numbers({1, 1})}, {c, numbers({0, 0})}}, y), (List{4, 9}));
  EXPECT_EQ(run({{x, numbers({1, 1})}, {w, numbers({1, 1})}}, hidden), (List{1, 1})) << "a variable that is fed is not read";
  EXPECT_EQ(run({{w, numbers({1, 1})}}, after), (List{1, 1}));
  EXPECT_EQ(run({{hidden, numbers({5, 6})}}, hidden), (List{5, 6}));
  EXPECT_EQ(read(w), (List{2, 3}));
  runner.run({{w, numbers({7, 7})}}, {twice});
  EXPECT_EQ(read(w), (List{14, 14})) << "but written";
  EXPECT_EQ(message_of<ShapeError>([&] { run({{hidden, numbers({1})}}, y); }), "run: the value float32 [2] is fed float32 [1]; accepted: float32 [2]");
}

}  // namespace
}  // namespace gemel::graph
