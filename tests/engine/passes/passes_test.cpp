// Graph passes: what each leaves out, that it leaves out nothing else, and that the results stay.
#include "engine/passes/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

using Body = std::function<Values(const Values&)>;

Program optimised(const Specs& inputs, const Body& body, const PassNames& names) {
  return optimise(test_session(), capture(test_session(), inputs, body), names);
}

std::vector<std::string> operators_of(const Program& program) {
  std::vector<std::string> out;
  for (const auto& step : program.code) out.push_back(step.op->name);
  return out;
}

std::vector<double> numbers(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> out(at(n));
  for (double& v : out) v = static_cast<float>(std::uniform_real_distribution<double>(-2, 2)(random));
  return out;
}

Values made(Session& session, const Specs& specs) {
  Values out;
  for (std::size_t i = 0; i < specs.size(); ++i)
    out.push_back(session.tensor(specs[i], std::span<const double>(numbers(specs[i].elements(), static_cast<unsigned>(i) + 1))));
  return out;
}

using Names = std::vector<std::string>;

TEST(Passes, simplification_leaves_out_what_gives_back_its_input) {
  const auto body = [](const Values& in) -> Values {
    Session& session = in[0].session();
    const Value one = full(session, {}, 1), zero = full(session, {}, 0);
    return {relu(negate(negate(broadcast_to(slice(in[0], {0, 0}, {4, 5}) * one + zero, in[0].shape())))) / one - zero};
  };
  EXPECT_EQ(operators_of(optimised({f32({4, 5})}, body, {"simplification", "dead-code"})), Names{"relu"});
}

TEST(Passes, simplification_keeps_what_only_looks_neutral) {
  const auto body = [](const Values& in) -> Values {
    Session& session = in[0].session();
    const Value zero = full(session, {}, 0), one = full(session, {}, 1), wide = full(session, f32({3, 5}), 1);
    return {zero - in[0], one / in[0], in[0] * zero, in[0] * wide};  // the last is of another shape
  };
  const Names kept = operators_of(optimised({f32({5})}, body, {"simplification", "dead-code"}));
  EXPECT_EQ(std::count(kept.begin(), kept.end(), "multiply"), 2);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), "subtract"), 1);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), "divide"), 1);
}

TEST(Passes, normalisation_by_running_statistics_joins_its_neighbours) {
  Session& session = test_session();
  const Specs channels(4, f32({8}));
  Values parameters = made(session, channels);
  parameters[3] = square(parameters[3]);  // a variance
  const auto body = [&](const Values& in) -> Values {
    const Value x = conv2d(in[0], in[1], {.padding = {1, 1}});
    return {relu(batch_norm_inference(x, {parameters[0], parameters[1]}, parameters[2], parameters[3], 1e-3) + in[2])};
  };
  const Specs specs{f32({2, 6, 6, 8}), f32({3, 3, 8, 8}), f32({2, 6, 6, 8})};
  const Program folded = optimised(specs, body, {"decomposition"});
  EXPECT_EQ(operators_of(folded), (Names{"conv2d", "full", "add", "rsqrt", "multiply", "subtract", "multiply", "add", "add", "relu"}));
  const Program all = optimised(specs, body, parse_passes("all"));
  EXPECT_EQ(all.code.size(), 2u) << "one number a channel, and a convolution that does the rest: " << to_string(all);
  const Values in = made(session, specs);
  const auto expected = read(Executor(session, std::make_shared<Program>(optimised(specs, body, {}))).run(in)[0]);
  for (const Program& p : {folded, all}) {
    const auto found = read(Executor(session, std::make_shared<Program>(p)).run(in)[0]);
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5 * std::max(1.0, std::abs(expected[i]))) << i;
  }
}

TEST(Passes, constants_are_folded_and_state_is_not) {
  Session& session = test_session();
  const Value parameter = full(session, f32({3}), 2);
  const auto body = [&](const Values& in) -> Values {
    const Value constant = exp(full(session, f32({3}), 1) + full(session, {}, 1));
    return {in[0] * constant, parameter * full(session, {}, 3)};
  };
  const auto program = std::make_shared<Program>(optimised({f32({3})}, body, {"constant-folding"}));
  EXPECT_EQ(operators_of(*program), (Names{"multiply", "multiply"}));
  Executor executor(session, program);
  const Value x = full(session, f32({3}), 1);
  EXPECT_NEAR(read(executor.run({x})[0])[0], std::exp(2.0), 1e-6);
  assign(parameter, full(session, f32({3}), 5));
  EXPECT_EQ(read(executor.run({x})[1]), (std::vector<double>{15, 15, 15})) << "a parameter's later value is seen";
}

TEST(Passes, equal_applications_are_computed_once) {
  const auto body = [](const Values& in) -> Values { return {exp(in[0]) + exp(in[0]), exp(in[1])}; };
  EXPECT_EQ(operators_of(optimised({f32({3}), f32({3})}, body, {"common-subexpressions"})), (Names{"exp", "add", "exp"}));
}

TEST(Passes, an_expression_before_a_write_is_not_the_one_after) {
  Session& session = test_session();
  const Value state = full(session, f32({2}), 1);
  const auto body = [&](const Values& in) -> Values {
    const Value before = exp(state);
    assign(state, in[0]);
    return {before, exp(state)};
  };
  Executor executor(session, std::make_shared<Program>(optimised({f32({2})}, body, parse_passes("all"))));
  const Values out = executor.run({full(session, f32({2}), 0)});
  EXPECT_NEAR(read(out[0])[0], std::exp(1.0), 1e-6);
  EXPECT_EQ(read(out[1])[0], 1);
}

TEST(Passes, a_broadcast_of_what_is_written_is_no_constant) {
  Session& session = test_session();
  const auto body = [&](const Values& in) -> Values {
    const Value one = full(session, f32({1}), 1);
    assign(one, in[0]);
    return {multiply(in[1], broadcast_to(one, {2}))};
  };
  Executor executor(session, std::make_shared<Program>(optimised({f32({1}), f32({2})}, body, parse_passes("all"))));
  const Values out = executor.run({full(session, f32({1}), 3), full(session, f32({2}), 2)});
  EXPECT_EQ(read(out[0])[0], 6);
}

TEST(Passes, draws_are_neither_merged_nor_folded) {
  Session& session = test_session();
  session.begin_random_step(1);
  const auto program = optimised(
      {i64({4})},
      [&](const Values& in) -> Values {
        session.random().begin(in[0]);
        return {random_uniform(session, {8}, 0, 1), random_uniform(session, {8}, 0, 1)};
      },
      parse_passes("all"));
  EXPECT_EQ(operators_of(program), (Names{"random_uniform", "random_uniform"}));
}

TEST(Passes, dead_code_goes_and_writes_stay) {
  Session& session = test_session();
  const Value state = full(session, f32({2}), 1);
  const auto body = [&](const Values& in) -> Values {
    exp(in[0]);
    assign(state, in[0]);
    return {relu(in[0])};
  };
  EXPECT_EQ(operators_of(optimised({f32({2})}, body, {"dead-code"})), (Names{"assign", "relu"}));
}

TEST(Passes, parts_are_read_where_they_lie) {
  Session& session = test_session();
  const auto body = [](const Values& in) -> Values {
    const Values parts = split(exp(in[0]), {128, 256}, -1);
    return {relu(parts[1]), split(parts[0], {128}, 1)[0] + in[1]};
  };
  const Specs specs{f32({1, 384}), f32({1, 128})};
  const Values in = made(session, specs), eager = body(in);
  const auto program = std::make_shared<Program>(optimised(specs, body, {"part-views"}));
  EXPECT_EQ(operators_of(*program), (Names{"exp", "relu", "add"}));
  Executor executor(session, program);
  for (int run : {1, 2}) {
    const Values graph = executor.run(in);
    for (std::size_t o = 0; o < eager.size(); ++o) EXPECT_EQ(read(graph[o]), read(eager[o])) << "result " << o << ", run " << run;
  }
}

TEST(Passes, a_result_as_large_as_what_was_split_takes_no_place_of_a_part) {
  Session& session = test_session();
  const auto body = [](const Values& in) -> Values {
    const Values parts = split(exp(in[0]), {1, 1}, 0);
    const Value second = relu(parts[1]);
    return {relu(parts[0] + in[1]), second};  // broadcast over all rows, into as many bytes as both parts have
  };
  const Specs specs{f32({2, 128}), f32({2, 128})};
  const Values in = made(session, specs), eager = body(in);
  const auto program = std::make_shared<Program>(optimised(specs, body, {"part-views"}));
  EXPECT_EQ(operators_of(*program), (Names{"exp", "relu", "add", "relu"}));
  const Values graph = Executor(session, program).run(in);
  for (std::size_t o = 0; o < eager.size(); ++o) EXPECT_EQ(read(graph[o]), read(eager[o])) << o;
}

TEST(Passes, parts_of_what_changes_behind_the_split_are_those_of_before) {
  Session& session = test_session();
  const auto body = [](const Values& in) -> Values {
    const Value whole = exp(in[0]);
    const Values parts = split(whole, {1, 1}, 0);
    assign(whole, in[0]);
    return {relu(parts[0]), relu(parts[1]), relu(whole)};
  };
  const Specs specs{f32({2, 128})};
  const Values in = made(session, specs), eager = body(in);
  const auto program = std::make_shared<Program>(optimised(specs, body, {"part-views"}));
  const Values graph = Executor(session, program).run(in);
  for (std::size_t o = 0; o < eager.size(); ++o) EXPECT_EQ(read(graph[o]), read(eager[o])) << o;
}

TEST(Passes, parts_that_lie_apart_or_change_are_copied) {
  const auto copied = [](const Shape& x, const Axes& extents, std::int64_t axis, void (*use)(Values&)) {
    const auto body = [&](const Values& in) -> Values {
      Values parts = split(in[0], extents, axis);
      use(parts);
      return parts;
    };
    const Names kept = operators_of(optimised({{x, DType::float32}}, body, {"part-views"}));
    return std::ranges::find(kept, "split") != kept.end();
  };
  const auto computed = [](Values& parts) {
    for (Value& part : parts) part = relu(part);
  };
  EXPECT_FALSE(copied({2, 128}, {1, 1}, 0, computed));
  EXPECT_TRUE(copied({2, 256}, {128, 128}, 1, computed)) << "rows of both alternate";
  EXPECT_TRUE(copied({4}, {1, 3}, 0, computed)) << "no kernel's argument begins there";
  EXPECT_TRUE(copied({2, 128}, {1, 1}, 0, [](Values& parts) { parts[0] = relu(parts[0]); })) << "the second is a result";
  EXPECT_TRUE(copied({2, 128}, {1, 1}, 0, [](Values& parts) {
    assign(parts[0], parts[1]);
    parts = {relu(parts[0]), relu(parts[1])};
  })) << "the first changes";
}

TEST(Passes, names_are_checked) {
  EXPECT_TRUE(parse_passes("none").empty());
  EXPECT_EQ(parse_passes("all").size(), passes().size());
  for (const char* nameless : {"", "dead-code,", ","}) EXPECT_THROW(parse_passes(nameless), UsageError) << nameless;
  const std::string text = message_of<UsageError>([] { parse_passes("dead-code,magic"); });
  EXPECT_NE(text.find("'magic' is unknown; accepted: all, none, or some of simplification"), std::string::npos) << text;
}

/// A random expression over four inputs: full, a row, a column and a scalar.
Body random_expression(unsigned seed) {
  return [seed](const Values& in) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    Values pool = in;
    for (int step = 0; step < 14; ++step) {
      const Value a = pool[below(pool.size())], b = pool[below(pool.size())];
      switch (below(8)) {
        case 0:
          pool.push_back(a + b);
          break;
        case 1:
          pool.push_back(a * b);
          break;
        case 2:
          pool.push_back(a - b);
          break;
        case 3:
          pool.push_back(tanh(a));
          break;
        case 4:
          pool.push_back(maximum(a, b));
          break;
        case 5:
          pool.push_back(sigmoid(a) * 2.0);
          break;
        case 6:
          pool.push_back(where(greater(a, b), a, b));
          break;
        default:
          pool.push_back(a.shape().rank() == 2 && a.shape()[0] == 7 ? sum(a, {0}, Keep::yes) * 0.1 : relu(a));
          break;
      }
    }
    return Values{pool[pool.size() - 1], pool[pool.size() - 2], pool[pool.size() / 2]};
  };
}

// Contraction of a product and a sum saves one rounding of 6e-8; fourteen operators amplify it by less than a hundred.
constexpr double kFused = 1e-5;

TEST(Passes, random_expressions_keep_their_values) {
  Session& session = test_session();
  const Specs specs{f32({7, 33}), f32({33}), f32({7, 1}), f32({})};
  int fused = 0;
  const unsigned expressions = testing::is_full_run() ? 12 : 5;
  for (unsigned seed = 0; seed < expressions; ++seed) {
    const Body body = random_expression(seed);
    const Values in = made(session, specs);
    const Values eager = body(in);
    const auto program = std::make_shared<Program>(optimised(specs, body, parse_passes("all")));
    for (const auto& step : program->code) fused += step.op->name.starts_with("fused");
    Executor executor(session, program);
    for (int run : {1, 2}) {
      const Values graph = executor.run(in);
      for (std::size_t o = 0; o < eager.size(); ++o)
        EXPECT_LE(relative_error(read(graph[o]), read(eager[o])), kFused) << "seed " << seed << ", result " << o << ", run " << run << "\n"
                                                                          << to_string(*program);
    }
  }
  EXPECT_GE(fused, static_cast<int>(expressions)) << "chains were fused";
}

TEST(Passes, a_chain_is_not_fused_over_a_write_of_what_it_reads) {
  Session& session = test_session();
  const Value state = full(session, f32({5}), 1);
  const auto body = [&](const Values& in) -> Values {
    const Value product = in[0] * state;
    assign(state, in[0]);
    return {tanh(product)};
  };
  Executor executor(session, std::make_shared<Program>(optimised({f32({5})}, body, parse_passes("all"))));
  EXPECT_NEAR(read(executor.run({full(session, f32({5}), 0.5)})[0])[0], std::tanh(0.5), 1e-6);
}

TEST(Passes, what_must_run_after_something_is_neither_merged_with_what_ran_before_nor_waited_for) {
  const auto operators = [](bool later) {
    const auto body = [later](const Values& in) -> Values {
      const Value before = matmul(in[0], in[0]), total = in[0] + in[1];
      Trace& trace = in[0].session().trace();
      const RunAfter ordered(trace, later ? std::vector{static_cast<int>(trace.instructions()) - 1} : std::vector<int>());
      const Value again = matmul(in[0], in[0]);
      return {before, again, tanh(total)};
    };
    return operators_of(optimised({f32({3, 3}), f32({3, 3})}, body, parse_passes("all"))).size();
  };
  EXPECT_EQ(operators(false), 2u) << "one product, and a chain";
  EXPECT_EQ(operators(true), 4u) << "two products, and two kernels: the sum's inputs do not live on while the product is made again";
}

}  // namespace
}  // namespace gemel::testing
