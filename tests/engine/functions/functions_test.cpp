// Tests that the record of every function generates: documentation, and results and gradients on the device and against finite differences.
#include "engine/functions/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/catalog.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/finite_differences.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

constexpr double kStep = 1e-5;          // of central differences: error about step^2 plus 1e-16 / step
constexpr double kByDifference = 1e-6;  // what central differences in double are good to, times the number of terms
constexpr double kOnDevice = 5e-5;      // float32: some hundred operations, each good to 6e-8 of the largest element

struct FunctionCase {
  const FunctionDef* function;
  std::size_t sample;
  friend std::ostream& operator<<(std::ostream& out, const FunctionCase& c) { return out << c.function->name << "_" << c.sample; }
};
std::vector<FunctionCase> all_function_cases() {
  std::vector<FunctionCase> out;
  for (const FunctionDef* function : functions())
    for (std::size_t s = 0; s < function->samples().size(); ++s) out.push_back({function, s});
  return out;
}

class Functions : public ::testing::TestWithParam<FunctionCase> {
 protected:
  const FunctionDef& function() const { return *GetParam().function; }
  Sample sample() const { return function().samples()[GetParam().sample]; }
  InputNumbers numbers() const { return numbers_for(function().name, sample()); }
  bool any_floating() const {
    return std::ranges::any_of(sample().inputs, [](const Spec& s) { return is_floating(s.dtype); });
  }
  /// Floating inputs want a gradient.
  Values inputs(Session& session, const InputNumbers& x) const {
    Values out;
    const Specs specs = sample().inputs;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Value v = session.tensor(specs[i], std::span<const double>(x[i]));
      out.push_back(is_floating(specs[i].dtype) ? leaf(v) : v);
    }
    return out;
  }
  Value result(const Values& in) const { return function().definition(in, sample().attributes); }
  /// Random numbers in the shape of the floating inputs, zeros for the others.
  InputNumbers directions(unsigned seed) const {
    InputNumbers out;
    for (const Spec& s : sample().inputs) out.push_back(is_floating(s.dtype) ? noise(s.elements(), seed++) : std::vector<double>(at(s.elements()), 0.0));
    return out;
  }
  InputNumbers gradients(Session& session, const InputNumbers& x) const {
    const Values in = inputs(session, x);
    Values wanting;
    for (const Value& v : in)
      if (v.wants_gradient()) wanting.push_back(v);
    InputNumbers out;
    for (const Value& g : gradient({objective({result(in)})}, wanting)) out.push_back(read(g));
    return out;
  }
  double objective_at(Session& session, const InputNumbers& x) const { return read(objective({result(inputs(session, x))}))[0]; }
};

TEST_P(Functions, are_documented) {
  EXPECT_GE(function().doc.size(), 5u);
  EXPECT_EQ(function().doc.back(), '.');
  EXPECT_EQ(function().inputs.size(), sample().inputs.size());
  EXPECT_EQ(find_function(function().name), &function());
  EXPECT_FALSE(find_op(function().name)) << "an operator has this name";
  EXPECT_EQ(function().attributes.size(), sample().attributes.entries().size());
  for (const AttributeDef& a : function().attributes) EXPECT_TRUE(sample().attributes.find(a.name)) << a.name;
}

TEST_P(Functions, are_the_references_on_the_device) {
  const auto reference = Session::reference();
  const Value expected = result(inputs(*reference, numbers())), got = result(inputs(test_session(), numbers()));
  EXPECT_EQ(got.spec(), expected.spec());
  EXPECT_LE(relative_error(read(got), read(expected)), kOnDevice);
  if (!any_floating()) return;
  const InputNumbers slopes = gradients(*reference, numbers()), on_device = gradients(test_session(), numbers());
  for (std::size_t i = 0; i < slopes.size(); ++i) EXPECT_LE(relative_error(on_device[i], slopes[i]), kOnDevice) << "floating input " << i;
}

TEST_P(Functions, have_gradients_that_match_finite_differences) {
  if (!any_floating()) GTEST_SKIP() << "integers have no gradient";
  const auto session = Session::reference();
  const InputNumbers x = numbers(), along = directions(3);
  const InputNumbers g = gradients(*session, x);
  double by_rule = 0, scale = 1;
  for (std::size_t i = 0, w = 0; i < along.size(); ++i) {
    if (!is_floating(sample().inputs[i].dtype)) continue;
    for (std::size_t j = 0; j < along[i].size(); ++j) {
      by_rule += g[w][j] * along[i][j];
      scale += std::fabs(g[w][j] * along[i][j]);
    }
    ++w;
  }
  const double by_difference = (objective_at(*session, moved(x, along, kStep)) - objective_at(*session, moved(x, along, -kStep))) / (2 * kStep);
  EXPECT_NEAR(by_rule, by_difference, kByDifference * scale);
}

std::string name_of(const ::testing::TestParamInfo<FunctionCase>& of) { return ::testing::PrintToString(of.param); }
INSTANTIATE_TEST_SUITE_P(all, Functions, ::testing::ValuesIn(all_function_cases()), name_of);

TEST(FunctionTable, names_are_unique) {
  std::set<std::string> names;
  for (const FunctionDef* function : functions()) EXPECT_TRUE(names.insert(function->name).second) << function->name;
}

}  // namespace
}  // namespace gemel::testing
