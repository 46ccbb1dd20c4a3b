// Tests that every record generates, in the reference session: documentation, refusals, gradients, Hessian-vector products.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/ops/catalog.h"
#include "tests/support/operators/finite_differences.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

constexpr double kStep = 1e-5;  // of central differences: error about step^2 plus 1e-16 / step

class RecordCase : public ::testing::TestWithParam<OpCase> {
 protected:
  const OpDef& op() const { return *GetParam().op; }
  Sample sample() const { return op().samples()[at(GetParam().sample)]; }
};

/// Samples with a gradient that finite differences can be compared with; rounding to two bytes would hide the differences.
class GradientCase : public RecordCase {};
/// Those in two bytes, which are compared with float32 instead.
class TwoByteGradientCase : public RecordCase {};

class OpRecord : public ::testing::TestWithParam<const OpDef*> {};

double dot(const InputNumbers& a, const InputNumbers& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[i].size(); ++j) total += a[i][j] * b[i][j];
  return total;
}

double objective_at(const OpDef& op, const Sample& sample, const InputNumbers& x) {
  const auto session = Session::reference();
  return read(objective(apply(*session, op, inputs_in(*session, op, sample, x, Wanting::yes), sample.attributes)))[0];
}

TEST_P(OpRecord, is_documented_and_complete) {
  const OpDef& op = *GetParam();
  EXPECT_FALSE(op.name.empty());
  EXPECT_GE(op.doc.size(), 5u);
  EXPECT_EQ(op.doc.back(), '.');
  EXPECT_NE(op.infer, nullptr);
  EXPECT_NE(op.cost, nullptr);
  EXPECT_TRUE(op.reference || op.execute || op.views);
  EXPECT_TRUE(!op.variants.empty() || op.execute || op.views);
  ASSERT_TRUE(op.samples);
  EXPECT_FALSE(op.samples().empty());
  EXPECT_EQ(op.gradient == nullptr, op.gradient_reads.empty());
  for (const AttributeDef& a : op.attributes) EXPECT_GE(std::string(a.doc).size(), 3u) << a.name;
  for (const Sample& s : op.samples()) {
    EXPECT_EQ(s.attributes.entries().size(), op.attributes.size());
    for (const AttributeDef& a : op.attributes) {
      const Attributes::Item* item = s.attributes.find(a.name);
      ASSERT_TRUE(item) << a.name;
      EXPECT_EQ(type_of(*item), a.type) << a.name;
    }
  }
}

TEST_P(OpRecord, refuses_with_its_exact_text) {
  const OpDef& op = *GetParam();
  static const std::set<std::string> takes_anything{"full", "copy", "is_nonzero"};
  if (takes_anything.contains(op.name)) {
    EXPECT_TRUE(!op.rejected || op.rejected().empty()) << "it refuses something";
    return;
  }
  ASSERT_TRUE(op.rejected) << "what it refuses is not stated";
  const auto refusals = op.rejected();
  EXPECT_FALSE(refusals.empty());
  for (const Rejected& r : refusals) {
    try {
      op.infer(r.inputs, r.attributes);
      ADD_FAILURE() << "accepted what it should refuse with: " << r.message;
    } catch (const ShapeError& e) {
      EXPECT_EQ(e.what(), r.message);
    }
  }
}

TEST_P(RecordCase, infers_what_its_reference_makes) {
  const auto session = Session::reference();
  const Sample s = sample();
  const InputNumbers x = numbers_for(op(), s);
  const Values in = inputs_in(*session, op(), s, x, Wanting::no);
  const Specs expected = op().infer(s.inputs, s.attributes);
  const Values out = apply(*session, op(), in, s.attributes);
  ASSERT_EQ(out.size(), expected.size());
  for (std::size_t o = 0; o < out.size(); ++o) {
    EXPECT_EQ(out[o].spec(), expected[o]);
    for (double v : read(out[o])) EXPECT_FALSE(std::isnan(v));
  }
}

/// The same in float32.
Sample widened(Sample s) {
  if (s.attributes.find("dtype")) s.attributes.set("dtype", DType::float32);
  for (Spec& spec : s.inputs)
    if (is_two_bytes(spec.dtype)) spec.dtype = DType::float32;
  return s;
}

TEST_P(TwoByteGradientCase, gradient_is_that_in_float32_rounded) {
  const Sample s = sample();
  const InputNumbers x = numbers_for(op(), s);
  const auto session = Session::reference();
  const InputNumbers got = gradients(*session, op(), s, x), expected = gradients(*session, op(), widened(s), x);
  // In the mean square, where one element at a kink, which rounding moves to its other side, counts as little as it should.
  constexpr double kRoundedResults = 8;  // of forward pass, objective and backward pass
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!got[i].empty()) {
      EXPECT_LE(roundings(got[i], expected[i]) * 0x1p-24, kRoundedResults * coarsest_roundoff(op(), s)) << "input " << i;
    }
}

TEST_P(GradientCase, gradient_matches_finite_differences) {
  const Sample s = sample();
  const InputNumbers x = numbers_for(op(), s);
  const auto session = Session::reference();
  const InputNumbers g = gradients(*session, op(), s, x);
  for (unsigned seed : {1u, 2u}) {
    const InputNumbers d = directions_for(op(), s, seed);
    const double by_difference = (objective_at(op(), s, moved(x, d, kStep)) - objective_at(op(), s, moved(x, d, -kStep))) / (2 * kStep);
    const double by_rule = dot(d, g);
    // Central differences in double are good to about 1e-9 of the terms summed; their number sets the scale.
    EXPECT_NEAR(by_rule, by_difference, 1e-6 * std::max(1.0, std::sqrt(dot(g, g)) * std::sqrt(dot(d, d))));
  }
}

TEST_P(GradientCase, hessian_vector_product_matches_finite_differences) {
  const Sample s = sample();
  const InputNumbers x = numbers_for(op(), s), d = directions_for(op(), s, 3);
  const auto session = Session::reference();
  const InputNumbers hv = hessian_vector(*session, op(), s, x, d);
  const InputNumbers up = gradients(*session, op(), s, moved(x, d, kStep)), down = gradients(*session, op(), s, moved(x, d, -kStep));
  for (std::size_t i = 0; i < up.size(); ++i) {
    std::vector<double> by_difference(up[i].size());
    for (std::size_t j = 0; j < up[i].size(); ++j) by_difference[j] = (up[i][j] - down[i][j]) / (2 * kStep);
    EXPECT_LE(relative_error(hv[i], by_difference, 1.0), 1e-6) << "input " << i;  // as above
  }
}

std::string op_name(const ::testing::TestParamInfo<const OpDef*>& info) { return info.param->name; }
enum class In { four_bytes, two_bytes };
std::vector<OpCase> cases_with_gradient(In in) {
  std::vector<OpCase> out = all_cases();
  std::erase_if(out, [in](const OpCase& c) {
    const Sample s = c.op->samples()[at(c.sample)];
    return !any_differentiable(*c.op, s) || in_two_bytes(*c.op, s) != (in == In::two_bytes);
  });
  return out;
}
std::vector<const OpDef*> all_ops() { return {catalog().begin(), catalog().end()}; }

INSTANTIATE_TEST_SUITE_P(all, OpRecord, ::testing::ValuesIn(all_ops()), op_name);
INSTANTIATE_TEST_SUITE_P(all, RecordCase, ::testing::ValuesIn(all_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(all, GradientCase, ::testing::ValuesIn(cases_with_gradient(In::four_bytes)), case_name);
INSTANTIATE_TEST_SUITE_P(all, TwoByteGradientCase, ::testing::ValuesIn(cases_with_gradient(In::two_bytes)), case_name);

TEST(Catalog, names_are_unique) {
  std::set<std::string> names;
  for (const OpDef* op : catalog()) EXPECT_TRUE(names.insert(op->name).second) << op->name;
}

}  // namespace
}  // namespace gemel::testing
