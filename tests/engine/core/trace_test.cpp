// The seam: what it refuses before anything runs.
#include "engine/core/trace.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "tests/support/message_of.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;

TEST(Seam, refuses_tensors_of_two_sessions) {
  const auto one = Session::reference(), other = Session::reference();
  const Value a = one->tensor(f32({2}), List{1, 2}), b = other->tensor(f32({2}), List{3, 4});
  EXPECT_EQ(message_of<UsageError>([&] { add(a, b); }), "add: input 1 float32 [2] belongs to another session; accepted: tensors of one session");
  EXPECT_EQ(message_of<UsageError>([&] { apply(*other, exp_def(), list(a)); }),
            "exp: input 0 float32 [2] belongs to another session; accepted: tensors of one session");
}

TEST(Seam, what_wants_a_gradient_is_written_in_place_in_a_no_gradient_scope_only) {
  const auto session = Session::reference();
  const Value x = leaf(session->tensor(f32({2}), List{1, 2})), y = session->tensor(f32({2}), List{3, 4});
  EXPECT_EQ(message_of<UsageError>([&] { apply(assign_def(), list(x, y)); }),
            "assign: input 0 is written in place but wants a gradient; accepted: a detached tensor, or a no-gradient scope");
  const std::uint64_t before = version_of(x);
  {
    const GradientMode off(*session, GradientMode::Mode::off);
    apply(assign_def(), list(x, y));
  }
  EXPECT_EQ(read(x), (List{3, 4}));
  EXPECT_EQ(version_of(x), before + 1);
}

}  // namespace
}  // namespace gemel::testing
