// The executor: plans that share one arena, and inputs that it cannot run on.
#include "engine/graph/run/executor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::testing {
namespace {

/// Three intermediates of x's size.
std::unique_ptr<Executor> plan_for(Session& session, std::int64_t columns) {
  return std::make_unique<Executor>(session, std::make_shared<Program>(capture(session, {f32({33, columns})}, [](const Values& in) -> Values {
                                      const Value e = exp(in[0]), s = softmax(in[0], 1);
                                      return {matmul(e, s, Transpose::no, Transpose::yes) + matmul(s, e, Transpose::no, Transpose::yes)};
                                    })));
}

std::vector<double> run(Session& session, Executor& executor, std::int64_t columns, double value) {
  return read(executor.run({full(session, f32({33, columns}), value)})[0]);
}

TEST(Executor, plans_of_one_session_share_an_arena_that_grows) {
  if (!test_session().interpreter().arena_limits()) GTEST_SKIP() << "each tensor has a buffer of its own";
  Session session(shared_test_device());
  const auto small = plan_for(session, 8);
  const std::int64_t before = session.arena().bytes();
  EXPECT_EQ(before, small->plan().arena_bytes);
  const std::vector<double> first = run(session, *small, 8, 0.5);
  const auto large = plan_for(session, 700);
  EXPECT_EQ(session.arena().bytes(), large->plan().arena_bytes) << "not the sum of both";
  const std::vector<double> of_large = run(session, *large, 700, 0.25);
  EXPECT_EQ(run(session, *small, 8, 0.5), first) << "placed again where the arena lies now";
  EXPECT_EQ(run(session, *large, 700, 0.25), of_large);
  EXPECT_NEAR(first[0], 2 * std::exp(0.5), 1e-5);
  EXPECT_NEAR(of_large[0], 2 * std::exp(0.25), 1e-4);
}

TEST(Executor, a_symbolic_input_is_refused) {
  Session& session = test_session();
  const auto plan = plan_for(session, 8);
  EXPECT_EQ(message_of<UsageError>([&] {
              capture(session, {f32({33, 8})}, [&](const Values& in) { return plan->run({in[0]}); });
            }),
            "graph: input 0 is symbolic, of a graph that is being captured; accepted: a tensor with contents");
}

TEST(Executor, an_input_of_another_session_or_an_empty_one_is_refused) {
  const auto plan = plan_for(test_session(), 8);
  const auto reference = Session::reference();
  EXPECT_EQ(message_of<UsageError>([&] {
              plan->run({full(*reference, f32({33, 8}), 1)});
            }),
            "graph: input 0 float32 [33, 8] belongs to another session; accepted: tensors of the graph's session");
  EXPECT_EQ(message_of<UsageError>([&] { plan->run({Value()}); }), "graph: input 0 is empty; accepted: float32 [33, 8]");
}

}  // namespace
}  // namespace gemel::testing
