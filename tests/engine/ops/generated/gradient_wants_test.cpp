// Tests that every record generates, in the reference session: an input that alone wants a gradient gets the one that it
// gets among others. What only the others' gradients look at was not kept then.
#include <gtest/gtest.h>

#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

// The same terms in double, perhaps added in another order.
constexpr double kSame = 1e-12;

class WantsCase : public ::testing::TestWithParam<OpCase> {};

std::vector<double> or_zeros(const Values& found, const Spec& spec) { return found[0] ? read(found[0]) : std::vector<double>(at(spec.elements()), 0.0); }

TEST_P(WantsCase, an_input_alone_gets_the_gradient_that_it_gets_among_others) {
  const OpDef& op = *GetParam().op;
  const Sample s = op.samples()[at(GetParam().sample)];
  const InputNumbers x = numbers_for(op, s), directions = directions_for(op, s, 3);
  const auto session = Session::reference();
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    if (!differentiable(op, s, i)) continue;
    Values in = inputs_in(*session, op, s, x, Wanting::no);
    const Value alone = in[i] = leaf(in[i]);
    const Values outputs = apply(*session, op, std::move(in), s.attributes);
    const Value total = objective(outputs);
    const Values g = gradient({total}, {alone}, {}, Tape::extend);
    EXPECT_LE(relative_error(or_zeros(g, s.inputs[i]), gradients(*session, op, s, x)[i]), kSame) << "input " << i;
    if (!g[0] || !g[0].wants_gradient()) continue;
    InputNumbers along(directions.size());
    for (std::size_t j = 0; j < along.size(); ++j) along[j].assign(directions[j].size(), 0.0);
    along[i] = directions[i];
    const Value dot = sum(g[0] * session->tensor(s.inputs[i], std::span<const double>(along[i])));
    EXPECT_LE(relative_error(or_zeros(gradient({dot}, {alone}), s.inputs[i]), hessian_vector(*session, op, s, x, along)[i]), kSame)
        << "second order, input " << i;
  }
}

std::vector<OpCase> differentiable_cases() {
  std::vector<OpCase> out;
  for (const OpCase& c : all_cases())
    if (any_differentiable(*c.op, c.op->samples()[at(c.sample)])) out.push_back(c);
  return out;
}

INSTANTIATE_TEST_SUITE_P(all, WantsCase, ::testing::ValuesIn(differentiable_cases()), case_name);

}  // namespace
}  // namespace gemel::testing
