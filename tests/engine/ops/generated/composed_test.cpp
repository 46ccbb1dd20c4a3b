// Tests that every record with a definition in public operators generates: the definition gives what the operator gives, its writes and its
// gradients too; and it can stand in the operator's place in a program.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/catalog.h"
#include "engine/passes/decomposition.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

enum class By { operator_itself, definition };

Values outputs_by(By by, const OpDef& op, const Sample& s, const Values& in) {
  return by == By::definition ? op.composed(in, s.attributes) : apply(in[0].session(), op, in, s.attributes);
}

struct Computed {
  InputNumbers outputs, written, gradients;  // the last of the inputs that want one
};

Computed computed_by(By by, Session& session, const OpDef& op, const Sample& s) {
  const Values in = inputs_in(session, op, s, numbers_for(op, s), Wanting::yes);
  Values wanting;
  std::ranges::copy_if(in, std::back_inserter(wanting), [](const Value& v) { return v.wants_gradient(); });
  const Values out = outputs_by(by, op, s, in);
  Computed r;
  for (const Value& y : out) r.outputs.push_back(read(y));
  for (int w : op.writes) r.written.push_back(read(in[at(w)]));
  const Value scalar = wanting.empty() ? Value() : objective(out);
  const Values found = scalar ? gradient({scalar}, wanting) : Values(wanting.size());
  for (std::size_t i = 0; i < wanting.size(); ++i) r.gradients.push_back(found[i] ? read(found[i]) : std::vector<double>(at(wanting[i].elements()), 0.0));
  return r;
}

/// What is allowed beside the largest element: a value, and a gradient.
struct Tolerance {
  double value, gradient;
};
// Double has 53 bits; the longest sample adds thousands of terms, of which some cancel.
constexpr Tolerance kInDouble{1e-11, 1e-10};
// As in operators_test.cpp; a definition rounds after each operator, where a kernel keeps sums of its own.
constexpr Tolerance kInFloat32{2e-5, 1e-4};
// Rounded alike from other last bits: to a neighbour, two roundoffs away. Gradients chain several such results.
Tolerance with_rounded_results(Tolerance t, const OpDef& op, const Sample& s) {
  if (!in_two_bytes(op, s)) return t;
  const double step = 2 * coarsest_roundoff(op, s);
  return {t.value + step, t.gradient + 4 * step};
}

void expect_the_same(const Computed& got, const Computed& expected, const Tolerance& allowed) {
  const auto expect = [](const char* what, const InputNumbers& a, const InputNumbers& b, double most) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(relative_error(a[i], b[i]), most) << what << " " << i;
  };
  expect("output", got.outputs, expected.outputs, allowed.value);
  expect("written input", got.written, expected.written, allowed.value);
  expect("gradient", got.gradients, expected.gradients, allowed.gradient);
}

class ComposedCase : public ::testing::TestWithParam<OpCase> {
 protected:
  const OpDef& op() const { return *GetParam().op; }
  Sample sample() const { return op().samples()[at(GetParam().sample)]; }
};

TEST_P(ComposedCase, the_definition_is_the_operator) {
  const auto session = Session::reference();
  expect_the_same(computed_by(By::definition, *session, op(), sample()), computed_by(By::operator_itself, *session, op(), sample()),
                  with_rounded_results(kInDouble, op(), sample()));
}

TEST_P(ComposedCase, the_definition_on_a_device_is_the_operator) {
  if (!does_long_work()) GTEST_SKIP() << "hundreds of launches, on an emulator: with --full";
  const auto session = Session::reference();
  expect_the_same(computed_by(By::definition, test_session(), op(), sample()), computed_by(By::operator_itself, *session, op(), sample()),
                  with_rounded_results(kInFloat32, op(), sample()));
}

TEST_P(ComposedCase, results_of_the_definition_have_memory_of_their_own) {
  const auto session = Session::reference();
  const Values in = inputs_in(*session, op(), sample(), numbers_for(op(), sample()), Wanting::no);
  std::set<const Storage*> seen;
  for (const Value& v : in) seen.insert(v.storage().get());
  for (const Value& y : op().composed(in, sample().attributes)) EXPECT_TRUE(seen.insert(y.storage().get()).second);
}

TEST_P(ComposedCase, the_definition_stands_in_the_operators_place) {
  if (!does_long_work()) GTEST_SKIP() << "hundreds of launches, on an emulator: with --full";
  Session& session = test_session();
  const Sample s = sample();
  const InputNumbers x = numbers_for(op(), s);
  const Values eager_in = inputs_in(session, op(), s, x, Wanting::no), graph_in = inputs_in(session, op(), s, x, Wanting::no);
  Program program = capture(session, s.inputs, [&](const Values& in) { return apply(session, op(), in, s.attributes); });
  program = decomposed(session, std::move(program), [](const OpDef& each) { return each.composed != nullptr; });
  verify(program, "decomposition");
  EXPECT_TRUE(std::ranges::none_of(program.code, [&](const auto& step) { return step.op == &op(); }));
  const Values expected = op().composed(eager_in, s.attributes), found = Executor(session, std::make_shared<Program>(std::move(program))).run(graph_in);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t o = 0; o < found.size(); ++o) EXPECT_EQ(read_bytes(found[o]), read_bytes(expected[o])) << "output " << o;
  for (int w : op().writes) EXPECT_EQ(read_bytes(graph_in[at(w)]), read_bytes(eager_in[at(w)])) << "written input " << w;
}

std::vector<OpCase> composed_cases() {
  std::vector<OpCase> out = all_cases();
  std::erase_if(out, [](const OpCase& c) { return !c.op->composed; });
  return out;
}
INSTANTIATE_TEST_SUITE_P(all, ComposedCase, ::testing::ValuesIn(composed_cases()), case_name);

/// The others are public operators, or their gradients, that nothing is gained by writing out.
TEST(Composed, fused_operators_have_a_definition) {
  std::set<std::string> found;
  for (const OpDef* op : catalog()) {
    if (op->composed) found.insert(op->name);
    EXPECT_TRUE(op->composed || !op->decomposes) << op->name;
  }
  EXPECT_EQ(found, (std::set<std::string>{"attention", "attention_backward", "batch_norm", "batch_norm_backward", "batch_norm_inference", "cross_entropy",
                                          "cross_entropy_backward", "ctc_loss", "ctc_loss_backward", "gru", "gru_backward", "layer_norm", "layer_norm_backward",
                                          "log_softmax", "lstm", "lstm_backward", "softmax"}));
}

}  // namespace
}  // namespace gemel::testing
