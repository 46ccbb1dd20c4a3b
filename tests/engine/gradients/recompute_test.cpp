// Recomputation: the same bits, state that moves once, less memory, in both front ends; and what it refuses.
#include "engine/gradients/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/trace.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/run/memory_plan.h"
#include "engine/ops/ops.h"
#include "frontends/graph/compile.h"
#include "frontends/graph/graph.h"
#include "frontends/graph/runner.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/optim/optimizer.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/models/residual_block.h"
#include "tests/support/models/split_case.h"

namespace gemel {
namespace {

using nn::Recompute;
using testing::message_of;
using testing::waves;
using testing::Where;
using Block = testing::ResidualBlock;
using List = std::vector<double>;

/// Blocks in pairs, then a mean and a linear layer. Draws also before, between and after.
std::unique_ptr<nn::Sequential> network(int pairs, std::int64_t channels) {
  auto model = std::make_unique<nn::Sequential>();
  model->emplace<nn::Dropout>(0.1);
  for (int p = 0; p < pairs; ++p) {
    auto& pair = model->emplace<nn::Sequential>();
    pair.emplace<Block>(channels);
    pair.emplace<Block>(channels);
  }
  model->emplace<nn::AdaptiveAvgPool2d>(Pair{1, 1});
  model->emplace<nn::Flatten>();
  model->emplace<nn::Dropout>(0.1);
  model->emplace<nn::Linear>(channels, 2);
  return model;
}

/// What is computed again: nothing, each block, each pair, or both.
enum class Blocks { kept, recomputed, in_pairs, nested };

void choose(nn::Module& model, Blocks blocks) {
  if (blocks == Blocks::recomputed || blocks == Blocks::nested) model.visit_all<Block>([](Block& b) { b.set_recompute(Recompute::yes); });
  if (blocks == Blocks::in_pairs || blocks == Blocks::nested)
    for (const auto& child : model.children())
      if (child->describe() == "Sequential") child->set_recompute(Recompute::yes);
}

/// A training step: loss, gradients, update. in: pictures, random state, the optimizer's numbers
struct Trainer {
  Session& session;
  std::unique_ptr<nn::Sequential> model;
  std::unique_ptr<optim::Optimizer> optimizer;

  Trainer(Session& in_session, Blocks blocks, int pairs = 2, std::int64_t channels = 3) : session(in_session), model(network(pairs, channels)) {
    choose(*model, blocks);
    model->materialise(session);
    optimizer = optim::make("momentum", optim::all_in_one(model->parameters()));
  }
  Values step(const Values& in) {
    session.random().begin(in[1]);
    const Value loss = mean(square((*model)(in[0]) - 1.0));
    optimizer->apply_updates(gradient({loss}, values_of(optimizer->parameters())), {in[2]});
    return {loss.detached()};
  }
  Values inputs(int step, const Shape& pictures) {
    const std::int64_t state[4] = {5, step, 0, 0};
    return {waves(session, pictures, 0.1 * step), session.tensor(i64({4}), std::as_bytes(std::span(state))), optimizer->hyper(0.05)[0]};
  }
};

enum class How { eager, graph };
using Place = std::tuple<Where, How>;

/// Losses, then parameters (as their gradients left them), momenta and statistics.
std::vector<List> trained(const Place& place, Blocks blocks) {
  const auto session = testing::session_on(std::get<0>(place), 3);
  Trainer trainer(*session, blocks);
  graph::Compiled compiled(
      *session, [&](const Values& in) { return trainer.step(in); }, parse_passes("all"));
  std::vector<List> out;
  for (int s = 1; s <= 3; ++s) {
    const Values in = trainer.inputs(s, {4, 5, 5, 3});
    out.push_back(read(std::get<1>(place) == How::graph ? compiled(in)[0] : trainer.step(in)[0]));
    trainer.optimizer->advance();
  }
  EXPECT_EQ(compiled.plans().size(), std::get<1>(place) == How::graph ? 1u : 0u) << "captured once for all steps";
  const ParameterSet set = trainer.model->parameters();
  EXPECT_EQ(read(*set.find("1.0.bn.num_batches_tracked")), List{3}) << "the statistics move once a step";
  for (const NamedValue& p : set.parameters()) out.push_back(read(p.value));
  for (const NamedValue& b : set.buffers()) out.push_back(read(b.value));
  for (const NamedValue& s : trainer.optimizer->state()) out.push_back(read(s.value));
  return out;
}

class RecomputeEverywhere : public ::testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(, RecomputeEverywhere,
                         ::testing::Combine(::testing::Values(Where::reference, Where::device), ::testing::Values(How::eager, How::graph)), [](const auto& i) {
                           return std::string(std::get<0>(i.param) == Where::reference ? "reference_" : "device_") +
                                  (std::get<1>(i.param) == How::eager ? "eager" : "graph");
                         });

TEST_P(RecomputeEverywhere, blocks_train_to_the_same_bits) {
  const auto kept = trained(GetParam(), Blocks::kept);
  EXPECT_NE(kept[0], kept[2]) << "it learns";
  EXPECT_EQ(trained(GetParam(), Blocks::recomputed), kept);
}

TEST_P(RecomputeEverywhere, blocks_within_blocks_train_to_the_same_bits) { EXPECT_EQ(trained(GetParam(), Blocks::nested), trained(GetParam(), Blocks::kept)); }

// ---- memory

constexpr int kPairs = 5;

Program captured_step(Session& session, Blocks blocks) {
  Trainer trainer(session, blocks, kPairs, 4);
  return capture(session, {f32({2, 16, 16, 4}), i64({4}), trainer.optimizer->hyper_specs()[0]}, [&](const Values& in) { return trainer.step(in); });
}

std::int64_t convolutions_in(const Program& program) {
  return std::ranges::count_if(program.code, [](const auto& step) { return step.op->name == "conv2d"; });
}

TEST(Recompute, passes_do_not_merge_the_second_run_with_the_first) {
  const auto session = Session::reference();
  const auto convolutions = [&](Blocks blocks) { return convolutions_in(optimise(*session, captured_step(*session, blocks), parse_passes("all"))); };
  EXPECT_EQ(convolutions(Blocks::kept), 2 * kPairs);
  EXPECT_EQ(convolutions(Blocks::recomputed), 4 * kPairs);
  EXPECT_EQ(convolutions(Blocks::nested), 5 * kPairs) << "the second run of a pair runs its blocks without a history, and its gradient runs them again; "
                                                         "what the last of them gives there nobody needs";
}

TEST(Recompute, a_graph_with_nothing_but_products_is_not_merged_either) {  // no draw and no write that would keep it apart
  const auto session = Session::reference();
  graph::Graph graph(*session);
  const auto building = graph.as_default();
  const Value x = graph.placeholder(f32({3, 3}), "x"), w = graph.variable(waves(*session, {3, 3}), "w");
  const Recomputable twice = [](const Values& in, const Values&) -> Values { return {tanh(matmul(tanh(matmul(in[0], in[1])), in[1]))}; };
  const Value y = recomputed(twice, {x, w}, {})[0];
  const Values g = graph.gradients(sum(y), {w});
  graph::Runner runner(graph);
  const Value fed = waves(*session, {3, 3}, 0.3);
  const List found = read(runner.run({{x, fed}}, {g[0], y})[0]);
  const auto& program = runner.plans().begin()->second.executor->program();
  EXPECT_EQ(std::ranges::count_if(program.code, [](const auto& step) { return step.op->name == "tanh"; }), 4);
  EXPECT_EQ(std::ranges::count_if(program.code, [](const auto& step) { return step.op->name == "matmul"; }), 7) << "two a run, three of gradients";
  const Value plain = leaf(w.detached());
  const Value z = tanh(matmul(tanh(matmul(x, plain)), plain));
  EXPECT_EQ(read(runner.run({{x, fed}}, {graph.gradients(sum(z), {plain})[0]})[0]), found);
}

TEST(Recompute, plans_a_smaller_arena) {
  const auto session = Session::reference();
  const auto bytes = [&](Blocks blocks) {
    return plan_memory(optimise(*session, captured_step(*session, blocks), parse_passes("all")), 64, std::int64_t{1} << 40).arena_bytes;
  };
  // Kept: of each block the convolution's result and the relu's. In pairs: of each pair its input, and for a while of one pair all.
  EXPECT_LT(2 * bytes(Blocks::in_pairs), bytes(Blocks::kept));
  EXPECT_LT(4 * bytes(Blocks::recomputed), 3 * bytes(Blocks::kept));
}

TEST(Recompute, an_eager_step_holds_less) {
  if (const auto& p = testing::test_device().profile(); p.is_emulator || !p.is_cpu())
    GTEST_SKIP() << "what its convolutions work in is larger than what is not kept";
  Session session(testing::shared_test_device());
  const auto peak = [&](Blocks blocks) {
    Trainer trainer(session, blocks, kPairs, 4);
    const Values in = trainer.inputs(1, {8, 32, 32, 4});
    opencl::Allocator& memory = session.device().memory();
    const std::int64_t before = memory.statistics().in_use;
    memory.reset_peak();
    trainer.step(in);
    return memory.statistics().peak_in_use - before;
  };
  const std::int64_t kept = peak(Blocks::kept);
  EXPECT_LT(3 * peak(Blocks::in_pairs), 2 * kept);
  EXPECT_LT(4 * peak(Blocks::recomputed), 3 * kept);
}

// ---- the second run is like the first

/// y = x m, and m moves towards the mean of x: a module that reads the state that it writes.
class Centring : public nn::Module {
 public:
  Centring() : weight_(add_parameter("weight", f32({}), nn::FileLayout::same, nn::constant(1.5))), mean_(add_buffer("mean", f32({}), 2)) {}

 protected:
  Value forward(Value x) override {
    Value y = x * copy(mean_.tensor()) * weight_.tensor();
    assign(mean_.tensor(), mean_.tensor() * 0.5 + mean(x.detached()));
    return training() ? y : y * 100.0;
  }

 private:
  nn::Parameter& weight_;
  nn::Buffer& mean_;
};

class RecomputeCentring : public ::testing::Test {
 protected:
  std::unique_ptr<Session> session = Session::reference();
  Centring module;
  Value x = leaf(waves(*session, {4}));
  void SetUp() override {
    module.materialise(*session);
    module.set_recompute(Recompute::yes);
  }
  const Value& parameter() const { return module.own_parameters()[0]->value; }
  List state() const { return read(module.own_buffers()[0]->value); }
};

TEST_F(RecomputeCentring, state_that_is_read_and_written_is_as_it_was) {
  const Value y = module(x);
  const List moved = state();
  EXPECT_NE(moved, List{2});
  const Values g = gradient({y}, {x, parameter()});
  EXPECT_EQ(read(g[0]), List(4, 3.0)) << "2 * 1.5, by the state before the first run";
  EXPECT_EQ(state(), moved) << "it moved once";
}

TEST_F(RecomputeCentring, a_history_that_is_retained_gives_the_same_again) {
  const Value y = module(x);
  const List first = read(gradient({y}, {x}, {}, Tape::retain)[0]);
  EXPECT_EQ(read(gradient({y}, {x}, {}, Tape::retain)[0]), first);
  EXPECT_EQ(read(gradient({y}, {x})[0]), first);
  EXPECT_THROW(gradient({y}, {x}), UsageError);
}

TEST_F(RecomputeCentring, modes_are_those_of_the_first_run) {
  const Value y = module(x);
  module.eval();
  module.freeze();
  EXPECT_EQ(read(gradient({y}, {x})[0]), List(4, 3.0));
  EXPECT_FALSE(module.training());
  EXPECT_FALSE(module.own_parameters()[0]->trainable);
}

TEST_F(RecomputeCentring, a_hook_sees_a_parameters_gradient_once) {
  int calls = 0;
  parameter().node()->hooks.emplace_back(0, std::make_shared<const GradientHook>([&calls](const Value&) -> Value {
                                           ++calls;
                                           return {};
                                         }));
  gradient({module(x)}, {parameter()});
  EXPECT_EQ(calls, 1);
}

TEST_F(RecomputeCentring, what_wants_no_gradient_runs_once_and_keeps_nothing) {
  struct Run {
    std::vector<std::string> operators;
    List state;
    bool wants_gradient;
  };
  const auto run = [&](Recompute recompute, GradientMode::Mode mode) {
    Centring fresh;
    fresh.materialise(*session);
    fresh.set_recompute(recompute);
    const GradientMode chosen(*session, mode);
    std::vector<std::string> operators;
    const auto watched = session->interpreter().observe([&](const OpDef& op, std::span<const Value>, std::span<const Value>) { operators.push_back(op.name); });
    const Value y = fresh(x);
    return Run{operators, read(fresh.own_buffers()[0]->value), y.wants_gradient()};
  };
  const Run plain = run(Recompute::no, GradientMode::Mode::off), again = run(Recompute::yes, GradientMode::Mode::off);
  EXPECT_FALSE(again.wants_gradient);
  EXPECT_FALSE(plain.operators.empty());
  EXPECT_EQ(again.operators, plain.operators) << "nothing runs twice, and no copy of the state is made";
  EXPECT_EQ(again.state, plain.state) << "it moved once";
  EXPECT_GT(run(Recompute::yes, GradientMode::Mode::on).operators.size(), plain.operators.size()) << "a copy of the state, where a gradient is wanted";
}

TEST(Recompute, differentiates_again) {
  const auto session = Session::reference();
  const Recomputable f = [](const Values& in, const Values&) -> Values { return {tanh(in[0] * in[1]) * in[0]}; };
  const auto second_order = [&](bool again) {
    const Value x = leaf(waves(*session, {5})), w = leaf(waves(*session, {5}, 0.7));
    const Value y = again ? recomputed(f, {x * 2.0, w}, {})[0] : f({x * 2.0, w}, {})[0];
    const Value first = gradient({sum(y)}, {x}, {}, Tape::extend)[0];
    std::vector<List> out{read(first)};
    for (const Value& g : gradient({sum(square(first))}, {x, w}, {}, Tape::extend)) out.push_back(read(g));  // also for what the first was not of
    return out;
  };
  EXPECT_EQ(second_order(true), second_order(false));
}

TEST(Recompute, differentiates_in_the_body_of_a_loop) {
  const auto session = Session::reference();
  const Recomputable f = [](const Values& in, const Values&) -> Values { return {tanh(in[0] * in[1])}; };
  const auto gradients = [&](bool again) {
    const Value x = leaf(waves(*session, {3})), w = leaf(waves(*session, {3}, 0.7));
    const auto below = [](const Values& v) { return less(v[1], full(v[1].session(), f32({}), 3)); };
    const auto body = [&](const Values& v) -> Values { return {again ? recomputed(f, {v[0], w}, {})[0] : f({v[0], w}, {})[0], v[1] + 1.0}; };
    const Value y = while_loop(below, body, {x, full(*session, f32({}), 0)}, 4)[0];
    std::vector<List> out;
    for (const Value& g : gradient({sum(y)}, {x, w})) out.push_back(read(g));
    return out;
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

// ---- refusals

TEST(Recompute, a_value_from_outside_that_wants_a_gradient_is_refused) {
  const auto session = Session::reference();
  const Value x = leaf(waves(*session, {2})), w = leaf(waves(*session, {2})), made = exp(w);
  const auto refused = [&](const Value& outside) {
    const Value y = recomputed([&](const Values& in, const Values&) -> Values { return {in[0] * outside}; }, {x}, {})[0];
    return message_of<UsageError>([&] { gradient({y}, {x}); });
  };
  const std::string text = "recomputed: a value from outside that wants a gradient is used";
  EXPECT_EQ(refused(w), text + ", and would get none; accepted: what is given as an input, or detached");
  EXPECT_EQ(refused(made), text + " (made by exp), and would get none; accepted: what is given as an input, or detached");
  EXPECT_EQ(read(gradient({recomputed([&](const Values& in, const Values&) -> Values { return {in[0] * w.detached()}; }, {x}, {})[0]}, {x})[0]), read(w));
}

TEST(Recompute, an_input_changed_before_the_second_run_is_refused) {
  const auto session = Session::reference();
  const Value x = leaf(waves(*session, {2}));
  const Value y = recomputed([](const Values& in, const Values&) -> Values { return {exp(in[0])}; }, {x}, {})[0];
  assign(x, waves(*session, {2}, 2));
  EXPECT_NE(message_of<UsageError>([&] { gradient({y}, {x}); }).find("recomputed: input 0 is needed for the gradient but was changed in place"),
            std::string::npos);
}

TEST(Recompute, a_module_that_is_gone_is_named) {
  const auto session = Session::reference();
  const Value x = leaf(waves(*session, {3, 2}));
  Value y;
  {
    nn::Linear linear(2, 2);
    linear.materialise(*session);
    linear.set_recompute(Recompute::yes);
    y = linear(x);
  }
  EXPECT_EQ(message_of<UsageError>([&] { gradient({y}, {x}); }),
            "Linear(2, 2): it is gone before the backward pass that computes it again; accepted: a module that lives until then");
}

TEST(Recompute, a_module_with_auxiliary_outputs_is_refused) {
  struct Two : nn::Module {
    std::string describe() const override { return "Two"; }
    Value forward(Value x) override { return x; }
    Values take_auxiliary() override { return {Value(f32({}), nullptr)}; }
  } two;
  const auto session = Session::reference();
  two.set_recompute(Recompute::yes);
  EXPECT_EQ(message_of<UsageError>([&] { two(leaf(waves(*session, {2}))); }),
            "Two: it has auxiliary outputs, which cannot be computed again with the main one; accepted: the modules within it");
}

// ---- models

TEST(Recompute, models_of_repeated_blocks_are_known) {
  EXPECT_EQ(models::names_with_blocks(),
            (std::vector<std::string_view>{"resnet18", "resnet50", "resnet152", "mobilenet_v2", "efficientnet_b4", "inception_v3"}));
  const std::map<std::string_view, int> blocks{{"resnet18", 8}, {"resnet50", 16}, {"mobilenet_v2", 17}, {"efficientnet_b4", 32}, {"inception_v3", 11}};
  for (const auto& [name, count] : blocks) {
    int found = 0;
    models::make(name, {.recompute = models::RecomputedParts::blocks})->visit([&](const std::string&, const nn::Module& m) {
      found += m.recompute() == Recompute::yes;
    });
    EXPECT_EQ(found, count) << name;
  }
  EXPECT_EQ(message_of<UsageError>([] { models::make("vgg16", {.recompute = models::RecomputedParts::blocks}); }),
            "vgg16: it has no repeated blocks to compute again; accepted: recompute none, or another model: "
            "resnet18, resnet50, resnet152, mobilenet_v2, efficientnet_b4, inception_v3");
}

}  // namespace
}  // namespace gemel
