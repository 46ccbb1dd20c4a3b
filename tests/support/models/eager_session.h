// Tests of the eager front end run in the reference session and on the device.
#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "frontends/eager/eager.h"
#include "tests/support/device/test_device.h"

namespace gemel::eager::testing {

enum class Where { reference, device };

class EagerTest : public ::testing::TestWithParam<Where> {
 protected:
  std::unique_ptr<Session> owned = GetParam() == Where::reference ? Session::reference() : std::make_unique<Session>(gemel::testing::shared_test_device());
  Session& session = *owned;

  Tensor wanting(const Nested& numbers) { return tensor(session, numbers, {.dtype = DType::float32, .requires_grad = true}); }
};

using Floats = std::vector<float>;

/// Expects an error of type E whose text contains `part`.
template <class E, class F>
void expect_error(F f, const std::string& part) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; expected: " << part;
  } catch (const E& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

}  // namespace gemel::eager::testing
