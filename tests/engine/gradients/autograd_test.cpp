// Backward passes over the seam: who may write in a gradient that is handed out.
#include "engine/gradients/autograd.h"

#include <gtest/gtest.h>

#include "engine/core/session.h"
#include "engine/ops/ops.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;

/// Gradients of f at leaves of these numbers; each is read, then overwritten, as soon as it is ready.
std::vector<List> gradients_overwritten(const std::function<std::pair<Value, Values>(const Values&)>& f, const std::vector<List>& numbers) {
  const auto session = Session::reference();
  Values leaves;
  for (const List& n : numbers) leaves.push_back(leaf(session->tensor(f32({2}), n)));
  const auto [y, targets] = f(leaves);
  std::vector<List> found(targets.size());
  gradient({sum(y)}, targets, {}, {.take = [&](std::size_t i, const Value& g) {
             found[i] = read(g);
             assign(g, full(*session, g.spec(), -99));
           }});
  return found;
}

TEST(Autograd, a_gradient_handed_out_may_be_overwritten_while_the_pass_goes_on) {
  // The sum's gradient goes to a and on to the product as it is.
  const auto found = gradients_overwritten([](const Values& v) { return std::pair{v[0] + v[1] * v[2], v}; }, {{1, 2}, {3, 4}, {5, 6}});
  EXPECT_EQ(found, (std::vector<List>{{1, 1}, {5, 6}, {3, 4}}));
}

TEST(Autograd, a_gradient_shared_through_a_view_may_be_overwritten) {
  const auto found = gradients_overwritten(
      [](const Values& v) {
        return std::pair{reshape(v[0], Shape{2, 1}) + reshape(v[1] * v[1], Shape{2, 1}), v};
      },
      {{1, 2}, {3, 4}});
  EXPECT_EQ(found, (std::vector<List>{{1, 1}, {6, 8}}));
}

TEST(Autograd, the_gradient_of_an_inner_value_may_be_overwritten) {
  const auto found = gradients_overwritten(
      [](const Values& v) {
        const Value h = v[0] * v[1];
        return std::pair{h * h, Values{h, v[0], v[1], h}};
      },
      {{1, 2}, {3, 4}});
  EXPECT_EQ(found, (std::vector<List>{{6, 16}, {18, 64}, {6, 32}, {6, 16}}));
}

}  // namespace
}  // namespace gemel::testing
