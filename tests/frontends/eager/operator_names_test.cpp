// The operators under their own names, in programs that use the eager front end's namespace: what is tested is that these programs compile.
#include <gtest/gtest.h>

#include "frontends/eager/eager.h"

namespace eager_alone {

using namespace gemel::eager;

float of_operators(gemel::Session& session) {
  const Tensor x = ones(session, {2, 3}, {.requires_grad = true});
  const Tensor y = reshape(exp(relu(x) - 1), {3, -1});
  const Tensor z = matmul(x, y) + full(session, {2}, 0.5) * 0;
  Tensor(mean(softmax(concatenate({x, x}, 0)), {0})).sum().backward();
  return static_cast<float>(Tensor(max(maximum(z, where(z > 0, sqrt(z), -z)))).item());
}

}  // namespace eager_alone

namespace eager_beside_the_engine {

using namespace gemel;
using namespace gemel::eager;

float of_operators(Session& session) {
  const Tensor x = ones(session, {2, 3}, {.requires_grad = true}), zeros_of = eager::full(session, {2}, 0.5);
  const Value value = x;
  const Value turned = reshape(value, {3, -1});
  const Tensor y = reshape(exp(relu(x) - 1), {3, -1}), z = matmul(x, y) + zeros_of * 0;
  Tensor(mean(softmax(concatenate({value, x}, 0)), {0})).sum().backward();
  return static_cast<float>(Tensor(max(where(z > 0, z, -z) + sum(turned) * 0)).item());
}

}  // namespace eager_beside_the_engine

namespace gemel::testing {
namespace {

TEST(EagerNames, of_operators_are_found_with_the_namespace_alone_and_beside_the_engines) {
  const auto session = Session::reference();
  EXPECT_EQ(eager_alone::of_operators(*session), 3);
  EXPECT_EQ(eager_beside_the_engine::of_operators(*session), 3);
}

}  // namespace
}  // namespace gemel::testing
