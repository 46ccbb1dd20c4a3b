// Gradients of the eager front end: backward passes, hooks, scopes, histories, custom functions.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "engine/base/error.h"
#include "engine/graph/capture/program.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/control/control_operators.h"
#include "tests/support/models/eager_session.h"

namespace gemel::eager::testing {
namespace {

class EagerAutograd : public EagerTest {};
INSTANTIATE_TEST_SUITE_P(Reference, EagerAutograd, ::testing::Values(Where::reference));
INSTANTIATE_TEST_SUITE_P(Device, EagerAutograd, ::testing::Values(Where::device));

// ---- backward
TEST_P(EagerAutograd, backward_fills_the_grad_of_leaves_only) {
  const Tensor x = wanting({1, 2}), constant = tensor(session, {3., 4.});
  const Tensor y = x * constant;
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{3, 4}));
  EXPECT_FALSE(y.grad().defined());
  EXPECT_FALSE(constant.grad().defined());
  EXPECT_TRUE(x.is_leaf() && constant.is_leaf() && !y.is_leaf());
  EXPECT_TRUE(y.requires_grad());
}

TEST_P(EagerAutograd, gradients_of_several_passes_add_up_in_the_same_memory) {
  const Tensor x = wanting({1, 2});
  (x * 2).sum().backward();
  const Tensor grad = x.grad();
  (x * x).sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{4, 6}));
  EXPECT_EQ(grad.to_vector(), (Floats{4, 6}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  (x * 3).sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{3, 3}));
}

TEST_P(EagerAutograd, gradients_flow_through_views) {
  const Tensor x = wanting({{1, 2}, {3, 4}});
  (x.view({4}) * tensor(session, {1., 10., 100., 1000.})).sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{1, 10, 100, 1000}));
  EXPECT_EQ(x.grad().shape(), (Shape{2, 2}));
}

TEST_P(EagerAutograd, a_tensor_of_several_elements_needs_a_gradient) {
  const Tensor x = wanting({1, 2});
  const Tensor y = x * x;
  expect_error<UsageError>([&] { y.backward(); }, "grad can be implicitly created only for scalar outputs, tensor 0 is [2]");
  y.backward(tensor(session, {1., 10.}));
  EXPECT_EQ(x.grad().to_vector(), (Floats{2, 40}));
}

TEST_P(EagerAutograd, a_tensor_without_history_has_no_backward) {
  expect_error<UsageError>([&] { tensor(session, 1.0).backward(); }, "tensor 0 does not require grad");
  const Tensor integer = tensor(session, 1), result = wanting(1) * 2;
  expect_error<UsageError>([&] { integer.requires_grad_(); }, "requires_grad_: int64 [] cannot have a gradient");
  expect_error<UsageError>([&] { result.requires_grad_(false); }, "only leaf tensors");
  expect_error<UsageError>([&] { Tensor().grad(); }, "an undefined tensor is used");
  EXPECT_FALSE(wanting(1).requires_grad_(false).requires_grad());
}

TEST_P(EagerAutograd, a_second_pass_needs_a_retained_graph) {
  const Tensor x = wanting(3);
  const Tensor y = x * x;
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_EQ(x.grad().item(), 12);
  expect_error<UsageError>([&] { y.backward(); }, "multiply: its history was released by an earlier backward pass");
}

TEST_P(EagerAutograd, several_tensors_go_back_together) {
  const Tensor x = wanting(3);
  backward({x * 2, x * x}, {tensor(session, 10.0), Tensor()});
  EXPECT_EQ(x.grad().item(), 26);
}

// ---- grad
TEST_P(EagerAutograd, grad_leaves_the_accumulated_gradients_alone) {
  const Tensor x = wanting({1, 2}), y = x * x;
  const Tensors found = grad({(y * 3).sum()}, {x, y});
  EXPECT_EQ(found[0].to_vector(), (Floats{6, 12}));
  EXPECT_EQ(found[1].to_vector(), (Floats{3, 3}));
  EXPECT_FALSE(x.grad().defined());
}

TEST_P(EagerAutograd, unused_inputs_are_an_error_unless_allowed) {
  const Tensor x = wanting(1), other = wanting(2);
  expect_error<UsageError>([&] { grad({x * 2}, {x, other}); }, "grad: input 1 appears to not have been used");
  const Tensors found = grad({x * 2}, {x, other}, {.allow_unused = true});
  EXPECT_EQ(found[0].item(), 2);
  EXPECT_FALSE(found[1].defined());
  expect_error<UsageError>([&] { grad({x * 2}, {tensor(session, 1.0)}); }, "grad: input 0 does not require grad");
}

TEST_P(EagerAutograd, gradients_of_gradients) {
  const Tensor x = wanting({1, 2});
  const Tensor first = grad({(x * x * x).sum()}, {x}, {.create_graph = true})[0];
  EXPECT_EQ(first.to_vector(), (Floats{3, 12}));
  EXPECT_EQ(grad({first.sum()}, {x})[0].to_vector(), (Floats{6, 12}));

  (x * x).sum().backward({.create_graph = true});
  const Tensor penalty = (x.grad() * x.grad()).sum();  // 4 x^2, gradient 8 x
  x.zero_grad();
  penalty.backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{8, 16}));
}

// ---- in place
TEST_P(EagerAutograd, what_a_gradient_needs_must_not_change_in_place) {
  const Tensor x = wanting({1, 2}), y = x.exp();
  const Tensor z = (y * y).sum();
  y.mul_(2);
  expect_error<UsageError>([&] { z.backward(); }, "is needed for the gradient but was changed in place");
}

TEST_P(EagerAutograd, in_place_changes_of_results_are_differentiated) {
  const Tensor x = wanting({1, 2}), w = wanting({3, 5});
  const Tensor y = x + 0;
  y *= w;  // w x
  y += x;  // w x + x
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{4, 6}));
  EXPECT_EQ(w.grad().to_vector(), (Floats{1, 2}));
}

TEST_P(EagerAutograd, a_plain_tensor_takes_a_history_in_place) {
  const Tensor x = wanting({1, 2}), sum = zeros(session, {2});
  sum += x * x;
  sum.sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{2, 4}));

  const Tensor copied = zeros(session, {2, 2});
  copied.copy_(x);
  EXPECT_FALSE(copied.is_leaf());
  x.zero_grad();
  copied.sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{2, 2}));
  const Tensor cleared = x * 2;
  cleared.zero_();
  EXPECT_FALSE(cleared.requires_grad());
}

TEST_P(EagerAutograd, a_history_that_no_longer_describes_its_tensor_is_refused) {
  const Tensor x = wanting({1, 2}), y = x * 2;
  y.view({2, 1}).add_(1);
  expect_error<UsageError>([&] { y.sum(); }, "was changed in place through a view or another handle");
  const Tensor base = zeros(session, {2}), apart = base.detach();
  base.view({2, 1}).add_(x.view({2, 1}));
  expect_error<UsageError>([&] { base.sum(); }, "was changed in place through a view or another handle");
  EXPECT_EQ(apart.sum().item(), 3) << "a detached tensor never had a history";
  EXPECT_EQ(base.detach().sum().item(), 3);
}

TEST_P(EagerAutograd, detached_tensors_share_memory_and_stop_gradients) {
  const Tensor x = wanting({1, 2});
  (x.detach() * x).sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{1, 2}));
  x.detach().fill_(7);
  EXPECT_EQ(x.to_vector(), (Floats{7, 7}));
}

TEST_P(EagerAutograd, clones_pass_gradients_on) {
  const Tensor x = wanting({1, 2}), y = x.clone();
  y.mul_(3);
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{3, 3}));
  EXPECT_EQ(x.to_vector(), (Floats{1, 2}));
}

// ---- hooks
TEST_P(EagerAutograd, hooks_see_the_complete_gradient_and_may_replace_it) {
  const Tensor x = wanting({1, 2}), y = x * 2;
  Floats seen;
  y.register_hook([&seen](const Tensor& g) { seen = g.to_vector(); });
  y.register_hook([](const Tensor& g) { return g * 10; });
  x.register_hook([](const Tensor& g) { return g + 1; });
  (y.sum() + y.sum()).backward();
  EXPECT_EQ(seen, (Floats{2, 2}));
  EXPECT_EQ(x.grad().to_vector(), (Floats{41, 41}));
}

TEST_P(EagerAutograd, removed_hooks_are_not_called) {
  const Tensor x = wanting(1);
  int calls = 0;
  HookHandle handle = x.register_hook([&calls](const Tensor&) { ++calls; });
  HookHandle itself;
  itself = x.register_hook([&](const Tensor&) { itself.remove(); });
  (x * 2).backward();
  handle.remove();
  handle.remove();
  (x * 2).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().item(), 4);
}

TEST_P(EagerAutograd, hooks_may_not_change_the_shape) {
  const Tensor x = wanting({1, 2});
  x.register_hook([](const Tensor& g) { return g.sum(); });
  expect_error<ShapeError>([&] { (x * 2).sum().backward(); }, "register_hook: the hook gave float32 [] for a gradient float32 [2]");
  expect_error<UsageError>([&] { tensor(session, 1.0).register_hook([](const Tensor&) {}); }, "does not require grad");
}

TEST_P(EagerAutograd, retained_gradients_of_results_add_up) {
  const Tensor x = wanting({1, 2}), y = x * 2;
  y.retain_grad();
  y.retain_grad();
  const Tensor z = (y * 3).sum();
  z.backward({.retain_graph = true});
  z.backward();
  EXPECT_EQ(y.grad().to_vector(), (Floats{6, 6}));
  EXPECT_EQ(x.grad().to_vector(), (Floats{12, 12}));
}

TEST_P(EagerAutograd, a_retained_gradient_is_what_the_hooks_leave_whenever_they_came) {
  const Tensor x = wanting({1, 2}), y = x * 2;
  y.register_hook([](const Tensor& g) { return g * 10; });
  y.retain_grad();
  y.register_hook([](const Tensor& g) { return g + 1; });
  y.sum().backward();
  EXPECT_EQ(y.grad().to_vector(), (Floats{11, 11}));
  EXPECT_EQ(x.grad().to_vector(), (Floats{22, 22}));
}

TEST_P(EagerAutograd, a_retained_gradient_is_of_the_tensor_as_it_is_after_changes_in_place) {
  const Tensor x = wanting({1, 2}), y = x * 2;
  y.retain_grad();
  y.mul_(3);
  y.add_(x);
  (y * 5).sum().backward();
  EXPECT_EQ(y.grad().to_vector(), (Floats{5, 5}));
  EXPECT_EQ(x.grad().to_vector(), (Floats{35, 35}));
}

TEST_P(EagerAutograd, hooks_on_tensors_of_a_body_are_refused_instead_of_left_out) {
  const Tensor x = wanting({1, 2});
  const Value yes = gemel::full(session, b8({}), 1);
  const auto within = [&](const std::function<void(const Tensor&)>& watch) {
    return [&x, watch]() -> Values {
      const Tensor y = x * 2;
      watch(y);
      return {y};
    };
  };
  const auto hooked = within([](const Tensor& y) { y.register_hook([](const Tensor&) {}); });
  expect_error<UsageError>([&] { cond(yes, hooked, within([](const Tensor&) {})); },
                           "register_hook: hooks are not called where a body is applied again from its capture (a conditional, a loop, a pipeline); "
                           "accepted: before or after it, on what it is given or gives");
  const auto retained = within([](const Tensor& y) { y.retain_grad(); });
  expect_error<UsageError>([&] { cond(yes, within([](const Tensor&) {}), retained); }, "retain_grad: hooks are not called");
  const auto always = [&](const Values&) { return yes; };
  expect_error<UsageError>(
      [&] {
        while_loop(
            always, [&](const Values&) { return hooked(); }, {x}, 2);
      },
      "register_hook: hooks are not called");
  int calls = 0;
  x.register_hook([&calls](const Tensor&) { ++calls; });
  Tensor(cond(yes, within([](const Tensor&) {}), within([](const Tensor&) {}))[0]).sum().backward();
  EXPECT_EQ(calls, 1) << "of what is given";
}

/// Gone with the last who holds it.
struct Watched {
  std::shared_ptr<int> held = std::make_shared<int>(0);
  std::weak_ptr<int> seen = held;
};

TEST_P(EagerAutograd, a_hook_that_holds_its_own_result_goes_with_the_history) {
  const Tensor x = wanting({1, 2});
  Watched watched;
  {
    const Tensor y = x * 2;
    y.register_hook([y, held = std::exchange(watched.held, nullptr)](const Tensor&) {});
    EXPECT_FALSE(watched.seen.expired());
    y.sum().backward();
  }
  EXPECT_TRUE(watched.seen.expired());
}

TEST_P(EagerAutograd, what_holds_itself_goes_with_the_session_at_the_latest) {
  Watched hook, gradient;
  {
    const Tensor x = wanting({1, 2}), y = wanting({1, 2});
    x.register_hook([x, held = std::exchange(hook.held, nullptr)](const Tensor&) {});
    y.register_hook([held = std::exchange(gradient.held, nullptr)](const Tensor&) {});
    (y * y).sum().backward({.create_graph = true});  // its gradient 2 y leads back to it
  }
  EXPECT_FALSE(hook.seen.expired() || gradient.seen.expired());
  owned.reset();
  EXPECT_TRUE(hook.seen.expired());
  EXPECT_TRUE(gradient.seen.expired());
}

// ---- custom functions
Function cube() {
  return {"Cube",
          [](Context& c, const Tensors& in) {
            c.save_for_backward({in[0]});
            return Tensors{in[0] * in[0] * in[0]};
          },
          [](const Context& c, const Tensors& g) { return Tensors{g[0] * c.saved()[0] * c.saved()[0] * 3}; }};
}

TEST_P(EagerAutograd, custom_functions_have_their_own_gradients_of_any_order) {
  const Tensor x = wanting({1, 2});
  const Tensor y = cube()({x})[0];
  EXPECT_EQ(y.to_vector(), (Floats{1, 8}));
  EXPECT_NE(to_string(y).find("grad_fn=<CubeBackward>"), std::string::npos);
  const Tensor first = grad({y.sum()}, {x}, {.create_graph = true})[0];
  EXPECT_EQ(first.to_vector(), (Floats{3, 12}));
  EXPECT_EQ(grad({first.sum()}, {x})[0].to_vector(), (Floats{6, 12}));
}

TEST_P(EagerAutograd, custom_functions_may_save_outputs_and_intermediates) {
  const Function scaled_exp{"ScaledExp",
                            [](Context& c, const Tensors& in) {
                              const Tensor doubled = in[1] * 2, y = in[0].exp();
                              c.save_for_backward({y, doubled});
                              return Tensors{y, y * doubled};
                            },
                            [](const Context& c, const Tensors& g) {
                              EXPECT_TRUE(c.needs_input_grad(0));
                              EXPECT_FALSE(c.needs_input_grad(1));
                              return Tensors{c.saved()[0] * (g[0] + g[1] * c.saved()[1]), Tensor()};
                            }};
  const Tensor x = wanting(1);
  const Tensors y = scaled_exp({x, tensor(session, 3.0)});
  y[1].backward();                                        // nothing arrives for y[0]: zeros
  EXPECT_NEAR(x.grad().item(), 6 * std::exp(1.0), 1e-5);  // float32
}

TEST_P(EagerAutograd, custom_functions_lie_about_gradients_as_they_please) {
  const Function straight{"Straight", [](Context&, const Tensors& in) { return Tensors{(in[0] > 0).to(DType::float32)}; },
                          [](const Context&, const Tensors& g) { return g; }};
  const Tensor x = wanting({-1, 2});
  (straight({x})[0] * 5).sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (Floats{5, 5}));
}

TEST_P(EagerAutograd, custom_functions_refuse_saved_tensors_that_changed) {
  const Tensor x = wanting({1, 2}), y = x * 1;
  const Tensor z = cube()({y})[0];
  y.add_(1);
  expect_error<UsageError>([&] { z.sum().backward(); }, "Cube: input 0 is needed for the gradient but was changed in place");
}

TEST_P(EagerAutograd, custom_gradients_are_checked) {
  const Tensor x = wanting({1, 2});
  const auto forward = [](Context&, const Tensors& in) { return Tensors{in[0] * 2}; };
  const Function none{"None", forward, [](const Context&, const Tensors&) { return Tensors{}; }};
  const Function narrow{"Narrow", forward, [](const Context&, const Tensors& g) { return Tensors{g[0].sum()}; }};
  expect_error<UsageError>([&] { none({x})[0].sum().backward(); }, "None: backward gave 0 gradients; accepted: 1, one an input");
  expect_error<UsageError>([&] { narrow({x})[0].sum().backward(); }, "Narrow: backward gave [] as gradient 0; accepted: [2]");
  expect_error<UsageError>([&] { none({}); }, "None: no input is given");
}

TEST_P(EagerAutograd, custom_functions_are_captured_with_their_gradient) {
  auto program = std::make_shared<Program>(capture(session, {f32({2})}, [](const Values& in) {
    const Tensor x = Tensor(in[0]).requires_grad_();
    return values_of(grad({cube()({x})[0].sum()}, {x}));
  }));
  Executor executor(session, program);
  EXPECT_EQ(Tensor(executor.run({tensor(session, {1., 2.})})[0]).to_vector(), (Floats{3, 12}));
  EXPECT_EQ(Tensor(executor.run({tensor(session, {0., 3.})})[0]).to_vector(), (Floats{0, 27}));
}

TEST_P(EagerAutograd, custom_functions_are_refused_where_gradients_replay_a_body) {
  expect_error<UsageError>(
      [&] {
        capture(
            session, {f32({2})}, [](const Values& in) { return values_of(cube()({in[0]})); }, Outside::passed);
      },
      "Cube: a custom function cannot be differentiated where it is applied again from a capture");
}

}  // namespace
}  // namespace gemel::eager::testing
