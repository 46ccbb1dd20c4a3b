// Whoever waits for gradients is told of each in eager and captured passes, and what it writes there is what the pass gives.
#include "engine/gradients/gradient_complete.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/files/graph_file.h"
#include "engine/gradients/row_gradient.h"
#include "engine/graph/cut/prune.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "engine/passes/passes.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::testing {
namespace {

using Numbers = std::vector<double>;
using Told = std::vector<std::pair<std::size_t, Numbers>>;

Value numbers(Session& session, const Numbers& n) { return session.tensor(f32({static_cast<std::int64_t>(n.size())}), std::span<const double>(n)); }

/// sum(a * b^2) at a = {1, 2}, b = {3, 4}: the gradient of b is complete after that of a, or before; both are told.
struct SumOfProducts {
  explicit SumOfProducts(Session& session) : a(leaf(numbers(session, {1, 2}))), b(leaf(numbers(session, {3, 4}))) {}
  Values pass(const GradientOptions& options) const { return gradient({sum(a * square(b))}, {a, b}, {}, options); }
  Value a, b;
};

const Numbers kOfA{9, 16}, kOfB{6, 16};

TEST(GradientComplete, is_told_once_for_each_with_its_value) {
  Session& session = test_session();
  Told told;
  const SumOfProducts c(session);
  const Values found = c.pass({.ready = [&](std::size_t i, const Value& g) { told.emplace_back(i, read(g)); }});
  std::ranges::sort(told);
  EXPECT_EQ(told, (Told{{0, kOfA}, {1, kOfB}}));
  EXPECT_EQ(read(found[0]), kOfA);
  EXPECT_EQ(read(found[1]), kOfB);
}

TEST(GradientComplete, of_a_captured_pass_is_told_at_every_replay_and_not_while_it_is_captured) {
  Session& session = test_session();
  Told told;
  const SumOfProducts c(session);
  const GradientOptions options{.ready = [&](std::size_t i, const Value& g) { told.emplace_back(i, read(g)); }};
  Executor executor(session, std::make_shared<const Program>(capture(session, {}, [&](const Values&) { return c.pass(options); })));
  EXPECT_TRUE(told.empty());
  for (int replay = 0; replay < 2; ++replay) {
    told.clear();
    executor.run({});
    std::ranges::sort(told);
    EXPECT_EQ(told, (Told{{0, kOfA}, {1, kOfB}}));
  }
}

TEST(GradientComplete, of_what_nothing_else_reads_is_told_after_all_passes_too) {
  Session& session = test_session();
  Told told;
  const SumOfProducts c(session);
  const GradientOptions options{.ready = [&](std::size_t i, const Value& g) { told.emplace_back(i, read(g)); }};
  const Program captured = capture(session, {}, [&](const Values&) -> Values { return {c.pass(options)[0]}; });
  Executor(session, std::make_shared<const Program>(optimise(session, captured, parse_passes("all")))).run({});
  std::ranges::sort(told);
  EXPECT_EQ(told, (Told{{0, kOfA}, {1, kOfB}}));
}

TEST(GradientComplete, what_is_written_in_place_is_what_the_pass_gives) {
  Session& session = test_session();
  const SumOfProducts c(session);
  const GradientOptions options{.ready = [&](std::size_t i, const Value& g) {
    const std::array<float, 2> seven{7, 7};
    if (i == 0) write(g, std::as_bytes(std::span(seven)));
  }};
  EXPECT_EQ(read(c.pass(options)[0]), (Numbers{7, 7}));
  Executor executor(session, std::make_shared<const Program>(capture(session, {}, [&](const Values&) { return c.pass(options); })));
  const Values found = executor.run({});
  EXPECT_EQ(read(found[0]), (Numbers{7, 7}));
  EXPECT_EQ(read(found[1]), kOfB);
}

TEST(GradientComplete, is_part_of_what_a_pruned_graph_makes_of_a_slab) {
  Session& session = test_session();
  const SumOfProducts c(session);
  const Values leaves{c.a, c.b};
  ParameterSlab::pack(leaves);
  int told = 0;
  const GradientOptions options{.ready = [&](std::size_t, const Value&) { ++told; }, .into = {gradient_place(c.a), gradient_place(c.b)}};
  const Program whole = capture(session, {}, [&](const Values&) { return c.pass(options); });
  const Pruned both = prune(whole, {whole.outputs, {}}), one = prune(whole, {{whole.outputs[0]}, {}});
  Executor(session, std::make_shared<const Program>(both.program)).run({});
  EXPECT_EQ(told, 2);
  told = 0;
  Executor(session, std::make_shared<const Program>(one.program)).run({});
  EXPECT_EQ(told, 1) << "the other gradient is not asked for";
}

TEST(GradientComplete, of_rows_is_told_as_rows_in_eager_and_captured_passes) {
  Session& session = test_session();
  const Value table = leaf(session.tensor(f32({5, 2}), Numbers(10, 1)));
  set_gradient_form(table, GradientForm::rows);
  const Value indices = session.tensor({Shape{3}, DType::int64}, Numbers{4, 0, 4});
  Numbers dense;
  const auto pass = [&](const Values&) {
    const Value y = gather(table, indices, 0);
    return Values{to_dense(gradient({sum(y * y)}, {table}, {}, {.ready = [&dense](std::size_t, const Value& g) {
                                      ASSERT_TRUE(row_values(g));
                                      dense = read(to_dense(g));
                                    }})[0])};
  };
  const Numbers expected{2, 2, 0, 0, 0, 0, 0, 0, 4, 4};
  EXPECT_EQ(read(pass({})[0]), expected);
  EXPECT_EQ(dense, expected);
  dense.clear();
  Executor executor(session, std::make_shared<const Program>(capture(session, {}, pass)));
  EXPECT_TRUE(dense.empty());
  executor.run({});
  EXPECT_EQ(dense, expected);
}

TEST(GradientComplete, the_reference_session_tells_too) {
  const auto session = Session::reference();
  Told told;
  SumOfProducts(*session).pass({.ready = [&](std::size_t i, const Value& g) { told.emplace_back(i, read(g)); }});
  std::ranges::sort(told);
  EXPECT_EQ(told, (Told{{0, kOfA}, {1, kOfB}}));
}

TEST(GradientComplete, taken_results_are_not_returned) {
  Session& session = test_session();
  Told taken;
  const Values found = SumOfProducts(session).pass({.take = [&](std::size_t i, const Value& g) { taken.emplace_back(i, read(g)); }});
  std::ranges::sort(taken);
  EXPECT_EQ(taken, (Told{{0, kOfA}, {1, kOfB}}));
  EXPECT_FALSE(found[0] || found[1]);
}

TEST(GradientComplete, is_refused_where_histories_go_on_and_in_a_graph_file) {
  Session& session = test_session();
  const SumOfProducts c(session);
  const GradientReady nobody = [](std::size_t, const Value&) {};
  EXPECT_EQ(message_of<UsageError>([&] { c.pass({.tape = Tape::extend, .ready = nobody}); }),
            "gradient: whom to tell of complete gradients is given with Tape::extend, where their histories go on; accepted: release or retain");
  EXPECT_EQ(message_of<UsageError>([&] {
              c.pass({.tape = Tape::extend, .into = {Value(), numbers(session, {0, 0})}});
            }),
            "gradient: memory for results is given with Tape::extend, where their histories go on; accepted: release or retain");
  EXPECT_EQ(message_of<UsageError>([&] { c.pass({.tape = Tape::extend, .postpone = [](std::size_t, const Value&, const Value&) { return false; }}); }),
            "gradient: whom to offer products to is given with Tape::extend, where their histories go on; accepted: release or retain");
  EXPECT_EQ(read(c.pass({.tape = Tape::extend, .into = Values(2)})[0]), kOfA) << "memory of its own for each";
  const Program captured = capture(session, {}, [&](const Values&) { return c.pass({.ready = nobody}); });
  EXPECT_NE(message_of<UsageError>([&] { to_json(captured); }).find("gradient_complete, is not in the catalog"), std::string::npos);
}

TEST(ErrorWord, belongs_to_the_session_whose_kernel_set_it) {
  Session other(shared_test_device());
  Session& session = test_session();
  const auto gathered = [](Session& s, std::int64_t row) {
    return gather(numbers(s, {1, 2, 3}), s.tensor({Shape{1}, DType::int64}, Numbers{static_cast<double>(row)}), 0);
  };
  const Value bad = gathered(session, 7), good = gathered(other, 1);
  EXPECT_EQ(read(good), (Numbers{2}));
  EXPECT_EQ(message_of<DataError>([&] { read(bad); }), "an index or label 7 is out of range; accepted: 0..2");
}

}  // namespace
}  // namespace gemel::testing
