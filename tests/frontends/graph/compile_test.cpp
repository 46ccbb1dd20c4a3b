// Compiled functions from the outside: what they refuse, where a program that computes at once would be right and the replayed one silently wrong.
#include "frontends/graph/compile.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/eager/eager.h"
#include "frontends/nn/module.h"
#include "frontends/optim/optimizer.h"
#include "tests/support/message_of.h"

namespace gemel::graph {
namespace {

using testing::message_of;
using List = std::vector<double>;

struct Compiling : ::testing::Test {
  std::unique_ptr<Session> owned = Session::reference();
  Session& session = *owned;
  const Value x = session.tensor(f32({2, 3}), List{1, 2, 3, 4, 5, 6});
  const Value w = leaf(session.tensor(f32({3, 1}), List{1, 2, 3}));

  Value loss(const Value& in) const { return sum(matmul(in, w)); }
};

using CompiledGradients = Compiling;

TEST_F(CompiledGradients, a_backward_pass_through_a_result_is_refused_and_says_what_to_do) {
  Compiled compiled = compile(session, [&](const Values& in) -> Values { return {loss(in[0])}; });
  const eager::Tensor result = compiled({x})[0], other = eager::Tensor(leaf(full(session, f32({}), 2)));
  EXPECT_EQ(result.item(), 46);
  const std::string text =
      "compile: its results have no history that a backward pass could follow; accepted: gradients that are taken within the function and returned by "
      "it, or used there by an optimizer's apply_updates; or detach() of its results";
  EXPECT_EQ(message_of<UsageError>([&] { result.backward(); }), text);
  EXPECT_EQ(message_of<UsageError>([&] { (result * other).backward(); }), text) << "not the gradient of the other alone";
  EXPECT_EQ(message_of<UsageError>([&] { eager::grad({result}, {w}); }), text);
  (result.detach() * other).backward();
  EXPECT_EQ(other.grad().item(), 46);
}

TEST_F(CompiledGradients, of_an_input_that_wants_one_are_refused_also_through_two_functions) {
  Compiled twice = compile(session, [](const Values& in) -> Values { return {in[0] * 2.0, argmax(in[0], 0)}; });
  const Values results = twice({leaf(x)});
  EXPECT_THROW(gradient({sum(results[0])}, {w}), UsageError);
  EXPECT_THROW(gradient({sum(twice({results[0]})[0])}, {w}), UsageError);
  EXPECT_FALSE(results[1].wants_gradient()) << "an index";
  EXPECT_FALSE(twice({x})[0].wants_gradient());
}

TEST_F(CompiledGradients, of_a_leaf_that_was_frozen_at_the_first_call_are_refused_once_it_is_thawed) {
  Compiled compiled = compile(session, [&](const Values& in) -> Values { return {loss(in[0])}; });
  const eager::Tensor other(leaf(full(session, f32({}), 2)));
  set_wants_gradient(w, false);
  EXPECT_FALSE(compiled({x})[0].wants_gradient());
  set_wants_gradient(w, true);
  const eager::Tensor result = compiled({x})[0];
  EXPECT_THROW((result * other).backward(), UsageError);
  set_wants_gradient(w, false);
  EXPECT_FALSE(compiled({x})[0].wants_gradient());
  EXPECT_EQ(compiled.plans().size(), 2u) << "the first one holds again";
}

TEST_F(CompiledGradients, taken_within_leave_a_loss_without_history) {
  Compiled step = compile(session, [&](const Values& in) -> Values {
    const Value l = loss(in[0]);
    const Values g = gradient({l}, {w});
    return {l, g[0]};
  });
  const Values results = step({x});
  EXPECT_FALSE(results[0].wants_gradient());
  EXPECT_EQ(read(results[1]), (List{5, 7, 9}));
}

TEST_F(CompiledGradients, are_asked_of_what_the_mode_at_the_call_records) {
  Compiled compiled = compile(session, [&](const Values& in) -> Values { return {loss(in[0])}; });
  {
    const eager::NoGrad off(session);
    EXPECT_FALSE(compiled({x})[0].wants_gradient());
  }
  EXPECT_TRUE(compiled({x})[0].wants_gradient()) << "captured anew: without histories it could not tell";
}

using CompiledBackward = Compiling;

TEST_F(CompiledBackward, into_leaves_from_outside_is_refused_and_leaves_no_name_in_their_grad) {
  const eager::Tensor outside = w;
  Compiled step = compile(session, [&](const Values& in) -> Values {
    eager::Tensor(loss(in[0])).backward();
    return {in[0]};
  });
  EXPECT_EQ(message_of<UsageError>([&] { step({x}); }),
            "backward: a graph is captured, and grad() of a tensor from outside of it would not change when the graph runs; accepted: grad(), whose "
            "results the captured function returns or gives to an optimizer's apply_updates");
  EXPECT_FALSE(outside.grad().defined());
  EXPECT_FALSE(session.capturing());
}

TEST_F(CompiledBackward, into_leaves_of_its_own_is_captured) {
  Compiled slope = compile(session, [](const Values& in) -> Values {
    const eager::Tensor own = eager::Tensor(in[0]).requires_grad_();
    (own * own).sum().backward();
    return {own.grad()};
  });
  EXPECT_EQ(read(slope({x})[0]), (List{2, 4, 6, 8, 10, 12}));
}

struct CompiledUpdates : Compiling {
  std::unique_ptr<optim::Optimizer> adam = optim::make("adam", {{{{"w", w}}}});
};

TEST_F(CompiledUpdates, by_a_step_with_a_rate_is_refused_as_it_would_always_be_the_first_step) {
  const List before = read(w);
  Compiled step = compile(session, [&](const Values& in) -> Values {
    adam->step(gradient({loss(in[0])}, {w}), 0.1);
    return {in[0]};
  });
  EXPECT_EQ(message_of<UsageError>([&] { step({x}); }),
            "optimizer: the rate and the count of steps would be constants of the graph that is captured, the same at each of its runs; accepted: "
            "apply_updates with hyperparameters that are an input of the captured function, given as hyper(rate)[0] at each call, and advance() after it; "
            "or step() with the gradients that the function returns");
  EXPECT_EQ(adam->steps(), 0);
  EXPECT_EQ(read(w), before);
  Compiled counting = compile(session, [&](const Values& in) {
    adam->advance();
    return in;
  });
  EXPECT_EQ(message_of<UsageError>([&] { counting({x}); }),
            "optimizer: advance() would count one step where a graph is captured and none at its runs; accepted: after each run");
}

TEST_F(CompiledUpdates, with_hyperparameters_that_are_an_input_are_those_computed_at_once) {
  Compiled step = compile(session, [&](const Values& in) -> Values {
    adam->apply_updates(gradient({loss(in[0] * in[0])}, {w}), {in[1]});
    return {in[0]};
  });
  const Value same = leaf(session.tensor(f32({3, 1}), List{1, 2, 3}));
  const auto at_once = optim::make("adam", {{{{"w", same}}}});
  for (int s = 1; s <= 3; ++s) {
    step({x, adam->hyper(0.1 / s)[0]});
    adam->advance();
    at_once->step(gradient({sum(matmul(x * x, same))}, {same}), 0.1 / s);
  }
  EXPECT_EQ(read(w), read(same));
}

/// A module that is called by other arguments than tensors, as an attention over a memory is.
struct Halving : nn::Module {
  Value half(const Value& x) {
    const Scope scope(x.session(), *this);
    return training() ? x * 0.5 : x;
  }
};

TEST(CompiledModes, of_a_module_called_by_a_function_of_its_own_are_followed_too) {
  const auto session = Session::reference();
  Halving halving;
  Compiled compiled = compile(*session, [&](const Values& in) -> Values { return {halving.half(in[0])}; });
  const Value x = full(*session, f32({1}), 2);
  EXPECT_EQ(read(compiled({x})[0]), List{1});
  halving.eval();
  EXPECT_EQ(read(compiled({x})[0]), List{2});
  halving.train();
  EXPECT_EQ(read(compiled({x})[0]), List{1});
  EXPECT_EQ(compiled.plans().size(), 2u);
}

TEST_F(Compiling, neither_calls_of_compiled_functions_nor_numbers_read_become_constants) {
  Compiled inner = compile(session, [&](const Values& in) -> Values { return {in[0] * 2.0}; });
  Compiled outer = compile(session, [&](const Values& in) -> Values { return {in[0] + sum(inner({w.detached()})[0])}; });
  EXPECT_EQ(message_of<UsageError>([&] { outer({x}); }),
            "compile: a compiled function is called while a graph is captured, where its results would be constants; accepted: a call of the function that it "
            "was compiled from");
  const eager::Tensor number(full(session, f32({}), 2));
  Compiled reads = compile(session, [&](const Values& in) -> Values { return {in[0] * number.item()}; });
  EXPECT_EQ(message_of<UsageError>([&] { reads({x}); }),
            "item: while a graph is captured its number would be a constant there; accepted: the tensor itself, or an input");
}

TEST(CompiledResults, that_are_empty_are_refused) {
  const auto session = Session::reference();
  Compiled compiled = compile(*session, [](const Values& in) -> Values { return {in[0], Value()}; });
  EXPECT_EQ(message_of<UsageError>([&] { compiled({full(*session, f32({1}), 2)}); }), "graph: output 1 of 'graph' is empty; accepted: a tensor");
}

}  // namespace
}  // namespace gemel::graph
