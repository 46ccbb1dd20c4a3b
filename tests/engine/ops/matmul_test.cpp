// Products over leading axes: [B, T, K] by [K, N] is one GEMM, and so are its gradients.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/gradients/autograd.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "engine/passes/passes.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

struct Step {
  std::vector<std::string> operators;
  std::int64_t arena_bytes = 0, flops = 0;
  std::vector<std::vector<double>> results;
};

/// sum(square(x w)), and its gradients by x and w.
Step step_of(Session& session, const Spec& x, const Spec& w, Transpose transposed) {
  Program program = optimise(session,
                             capture(session, {x, w},
                                     [&](const Values& in) -> Values {
                                       const Values of{leaf(in[0]), leaf(in[1])};
                                       const Value loss = sum(square(matmul(of[0], of[1], Transpose::no, transposed)));
                                       Values out = gradient({loss}, of);
                                       out.push_back(loss);
                                       return out;
                                     }),
                             parse_passes("all"));
  Step out;
  for (const auto& i : program.code) {
    if (!i.op->views) out.operators.push_back(i.op->name);
    Specs in, made;
    for (const auto& u : i.inputs) in.push_back(u.spec);
    for (const auto& u : i.outputs) made.push_back(u.spec);
    out.flops += i.op->cost({*i.op, i.attributes, in, made}).flops;
  }
  Executor executor(session, std::make_shared<const Program>(std::move(program)));
  out.arena_bytes = executor.plan().arena_bytes;
  const InputNumbers numbers = numbers_for(matmul_def(), {{x, w}, {{"transpose_a", false}, {"transpose_b", transposed == Transpose::yes}}});
  for (const Value& v : executor.run({session.tensor(x, numbers[0]), session.tensor(w, numbers[1])})) out.results.push_back(read(v));
  return out;
}

TEST(DeviceMatmul, folds_leading_axes_into_rows_forward_and_in_both_gradients) {
  Session session(shared_test_device());
  for (const Transpose transposed : {Transpose::no, Transpose::yes}) {
    const Spec w = transposed == Transpose::yes ? f32({40, 24}) : f32({24, 40});
    const Step folded = step_of(session, f32({3, 5, 24}), w, transposed), flat = step_of(session, f32({15, 24}), w, transposed);
    EXPECT_EQ(folded.operators, flat.operators);
    EXPECT_EQ(folded.arena_bytes, flat.arena_bytes);
    EXPECT_EQ(folded.flops, flat.flops);
    EXPECT_EQ(folded.results, flat.results) << "bit for bit: the same kernels over the same rows";
  }
}

}  // namespace
}  // namespace gemel::testing
