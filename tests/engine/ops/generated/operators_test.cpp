// Tests that every record generates on a device: each supporting variant, and the gradients, against the reference.
// Suites named Kernels* launch kernels one by one and suit a memory checker; Operators* go through the whole seam.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/graph/run/executor.h"
#include "engine/passes/passes.h"
#include "opencl/program/compiler_abort.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

// float32 has 24 bits: 6e-8 an operation. Sums of some thousand terms, exp and log of 3 to 4 units in the last place
// and divisions by small sums stay well below this, relative to the largest element.
constexpr double kForwardError = 1e-5;
// A gradient chains several such operations.
constexpr double kBackwardError = 5e-5;
// In two bytes the reference rounds each result as the device does, but from another last bit of the sum: a tie, or nearly one, may then go
// to the neighbour, two roundoffs away. A gradient chains several such results too.
double allowed(DType dtype, double in_float32, int results) { return in_float32 + (is_two_bytes(dtype) ? 2 * results * unit_roundoff(dtype) : 0); }
double forward_error(DType dtype) { return allowed(dtype, kForwardError, 1); }
double backward_error(DType dtype) { return allowed(dtype, kBackwardError, 4); }

class KernelsCase : public ::testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    if (!does_long_work() && in_two_bytes(op(), sample())) GTEST_SKIP() << "two bytes on an emulator: with --full";
    const auto is_half = [](const Spec& spec) { return spec.dtype == DType::float16; };
    if (!is_full_run() && std::ranges::any_of(sample().inputs, is_half)) GTEST_SKIP() << "float16, beside bfloat16: with --full";
  }
  const OpDef& op() const { return *GetParam().op; }
  Sample sample() const { return op().samples()[at(GetParam().sample)]; }
};
class OperatorsCase : public KernelsCase {};

struct Result {
  InputNumbers outputs, written;
};

Result expected_of(const OpDef& op, const Sample& s) {
  const auto session = Session::reference();
  const Values in = inputs_in(*session, op, s, numbers_for(op, s), Wanting::no);
  Result r;
  for (const Value& y : apply(*session, op, in, s.attributes)) r.outputs.push_back(read(y));
  for (int w : op.writes) r.written.push_back(read(in[at(w)]));
  return r;
}

/// Memory that shows where a kernel did not write. Written, not filled: a memory checker loses track of filled buffers.
Value poisoned(Session& session, const Spec& spec) { return session.tensor(spec, std::vector<std::byte>(at(spec.bytes()), std::byte{0xFF})); }

Result run_variant(Session& session, const OpDef& op, const Sample& s, const Variant& variant) {
  const Values in = inputs_in(session, op, s, numbers_for(op, s), Wanting::no);
  const Specs out_specs = op.infer(s.inputs, s.attributes);
  Values out;
  std::vector<opencl::Region> in_regions, out_regions;
  for (const Spec& spec : out_specs) out.push_back(poisoned(session, spec));
  for (const Value& v : in) in_regions.push_back(region_of(v));
  for (const Value& v : out) out_regions.push_back(region_of(v));
  launch(session, variant, {op, s.attributes, s.inputs, out_specs}, in_regions, out_regions);
  Result r;
  for (const Value& v : out) {
    r.outputs.push_back(read(v));
    const bool is_written = v.spec().dtype != DType::boolean || std::ranges::all_of(read_bytes(v), [](std::byte b) { return b <= std::byte{1}; });
    EXPECT_TRUE(is_written) << variant.name << " leaves booleans unwritten";
  }
  for (int w : op.writes) r.written.push_back(read(in[at(w)]));
  return r;
}

void expect_equal(const OpDef& op, const Sample& s, const Result& got, const Result& expected, const char* variant) {
  const Specs made = op.infer(s.inputs, s.attributes);
  for (std::size_t o = 0; o < got.outputs.size(); ++o)
    EXPECT_LE(relative_error(got.outputs[o], expected.outputs[o]), forward_error(made[o].dtype)) << variant << ", output " << o;
  for (std::size_t w = 0; w < got.written.size(); ++w)
    EXPECT_LE(relative_error(got.written[w], expected.written[w]), forward_error(s.inputs[at(op.writes[w])].dtype))
        << variant << ", written input " << op.writes[w];
}

constexpr std::int64_t kEmulatedFlops = 8'000;

TEST_P(KernelsCase, every_variant_matches_the_reference) {
  const Sample s = sample();
  if (op().variants.empty()) GTEST_SKIP() << "it has no kernels";
  const Specs out_specs = op().infer(s.inputs, s.attributes);
  if (!does_long_work() && op().cost({op(), s.attributes, s.inputs, out_specs}).flops > kEmulatedFlops) GTEST_SKIP() << "seconds on an emulator: with --full";
  const Result expected = expected_of(op(), s);
  int ran = 0;
  for (const Variant& variant : op().variants) {
    if (declines(variant, {op(), s.attributes, s.inputs, out_specs}, test_device().profile())) continue;
    try {
      expect_equal(op(), s, run_variant(test_session(), op(), s, variant), expected, variant.name);
      ++ran;
    } catch (const opencl::CompilerAbort& e) {  // it declines: the driver is known for it
      std::cout << variant.name << " declines: " << e.what() << "\n";
    }
  }
  EXPECT_GE(ran, 1) << "no variant takes the sample";
}

TEST_P(OperatorsCase, results_that_go_around_the_caches_match_the_reference) {
  const Sample s = sample();
  if (test_device().profile().is_emulator) GTEST_SKIP() << "an emulator has no caches to go around";
  if (op().variants.empty()) GTEST_SKIP() << "it has no kernels";
  const Specs out_specs = op().infer(s.inputs, s.attributes);
  const Variant& chosen = choose({op(), s.attributes, s.inputs, out_specs}, cacheless_session().device().profile());
  expect_equal(op(), s, run_variant(cacheless_session(), op(), s, chosen), expected_of(op(), s), chosen.name);
}

TEST_P(OperatorsCase, device_gradient_matches_the_reference) {
  const Sample s = sample();
  if (!any_differentiable(op(), s)) GTEST_SKIP() << "it has no gradient";
  const InputNumbers x = numbers_for(op(), s);
  const auto reference = Session::reference();
  Session& device = test_session();
  const InputNumbers expected = gradients(*reference, op(), s, x), got = gradients(device, op(), s, x);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_LE(relative_error(got[i], expected[i]), backward_error(s.inputs[i].dtype)) << "input " << i;
}

/// Outputs and first-order gradients of a sample, as one function of its inputs.
Values forward_and_backward(const OpDef& op, const Sample& s, const Values& in) {
  Values leaves, wanting;
  for (std::size_t i = 0; i < in.size(); ++i) {
    leaves.push_back(differentiable(op, s, i) ? leaf(in[i]) : in[i]);
    if (leaves.back().wants_gradient()) wanting.push_back(leaves.back());
  }
  Values out = apply(in.empty() ? test_session() : in[0].session(), op, leaves, s.attributes);
  if (wanting.empty()) return out;
  for (const Value& g : gradient({objective(out)}, wanting))
    if (g) out.push_back(g);
  return out;
}

/// Those that promise to change no bit. What fusion generates is tested apart: a program for every sample takes long to build.
PassNames exact_passes() {
  PassNames out;
  for (const Pass& pass : passes())
    if (pass.rounding == Rounding::exact) out.emplace_back(pass.name);
  return out;
}

void expect_graph_equals_eager(const OpDef& op, const Sample& s, const PassNames& names) {
  Session& session = test_session();
  const InputNumbers x = numbers_for(op, s);
  const Values eager_in = inputs_in(session, op, s, x, Wanting::no), graph_in = inputs_in(session, op, s, x, Wanting::no);
  Program program = capture(session, s.inputs, [&](const Values& in) { return forward_and_backward(op, s, in); });
  Executor executor(session, std::make_shared<Program>(optimise(session, std::move(program), names)));
  const Values eager = forward_and_backward(op, s, eager_in);
  for (int run : {1, 2}) {  // the second time in memory that has been used
    if (run == 2 && !op.writes.empty()) break;
    const Values graph = executor.run(graph_in);
    ASSERT_EQ(graph.size(), eager.size());
    for (std::size_t o = 0; o < graph.size(); ++o) EXPECT_EQ(read_bytes(graph[o]), read_bytes(eager[o])) << "run " << run << ", result " << o;
  }
  for (int w : op.writes) EXPECT_EQ(read_bytes(graph_in[at(w)]), read_bytes(eager_in[at(w)])) << "written input " << w;
}

TEST_P(OperatorsCase, graph_equals_eager_bit_for_bit) { expect_graph_equals_eager(op(), sample(), {}); }
TEST_P(OperatorsCase, graph_after_exact_passes_equals_eager_bit_for_bit) { expect_graph_equals_eager(op(), sample(), exact_passes()); }
/// The passes that round otherwise too, on one sample of each operator: a program of fused kernels takes long to build.
TEST_P(OperatorsCase, graph_after_all_passes_is_close_to_eager) {
  if (!is_full_run() || GetParam().sample != 0) GTEST_SKIP() << "with --full, the first sample";
  Session& session = test_session();
  const InputNumbers x = numbers_for(op(), sample());
  const Values eager_in = inputs_in(session, op(), sample(), x, Wanting::no), graph_in = inputs_in(session, op(), sample(), x, Wanting::no);
  Program program = capture(session, sample().inputs, [&](const Values& in) { return forward_and_backward(op(), sample(), in); });
  Executor executor(session, std::make_shared<Program>(optimise(session, std::move(program), parse_passes("all"))));
  const Values eager = forward_and_backward(op(), sample(), eager_in), graph = executor.run(graph_in);
  ASSERT_EQ(graph.size(), eager.size());
  for (std::size_t o = 0; o < graph.size(); ++o) EXPECT_LE(relative_error(read(graph[o]), read(eager[o])), backward_error(eager[o].dtype())) << "result " << o;
  for (int w : op().writes)
    EXPECT_LE(relative_error(read(graph_in[at(w)]), read(eager_in[at(w)])), backward_error(eager_in[at(w)].dtype())) << "written input " << w;
}

INSTANTIATE_TEST_SUITE_P(all, OperatorsCase, ::testing::ValuesIn(all_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(all, KernelsCase, ::testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gemel::testing
