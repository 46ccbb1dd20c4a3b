// Parameters that stay: one leaf each, in a slab, whatever is frozen, tied or added after an optimizer was built; in eager, compiled
// and Graph steps.
#include "engine/parameters/parameter_slab.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/base/error.h"
#include "engine/files/graph_file.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "frontends/eager/eager.h"
#include "frontends/graph/compile.h"
#include "frontends/graph/runner.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/optim/optimizer.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/models/two_layers.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {
namespace {

using Numbers = std::vector<double>;

Value vector_of(Session& session, const Numbers& numbers) {
  return session.tensor(f32({static_cast<std::int64_t>(numbers.size())}), std::span<const double>(numbers));
}

Value input_of(Session& session) { return session.tensor(f32({2, 3}), Numbers{1, -2, 3, 0.5, 1, -1}); }

/// A step of gradient descent on the sum of squares, as eager, compiled or Graph steps have it.
struct SlabTraining {
  Session& session;
  TwoLayers net{};
  std::unique_ptr<optim::Optimizer> optimizer{};

  explicit SlabTraining(Session& s) : session(s) {
    net.materialise(session);
    optimizer = optim::make("momentum", optim::all_in_one(net.parameters()));
  }
  Values step(const Values& in) {
    const Value loss = sum(square(net(in[0])));
    optimizer->apply_updates(gradient({loss}, values_of(optimizer->parameters()), {}, {.into = optimizer->gradient_places()}), {in[1]});
    return {loss.detached()};
  }
  Values inputs() { return {input_of(session), optimizer->hyper(0.01)[0]}; }
  Numbers weights(nn::Linear& layer) { return read(layer.weight().tensor()); }
};

TEST(ParameterSlab, ranges_begin_pages_and_padding_is_zero) {
  Session& session = test_session();
  const Value a = leaf(vector_of(session, {1, 2, 3})), b = leaf(full(session, f32({1025}), 7)), c = leaf(full(session, f32({0}), 0));
  const Values all{a, b, c};
  ParameterSlab::pack(all);
  const ParameterSlab& slab = *a.node()->slab;
  EXPECT_EQ(b.node()->slab.get(), &slab);
  EXPECT_EQ(slab.parameters().pages(), 4) << "one, two, and one for a tensor of no elements";
  const Numbers whole = read(slab.parameters().whole());
  EXPECT_EQ(Numbers(whole.begin(), whole.begin() + 4), (Numbers{1, 2, 3, 0}));
  EXPECT_EQ(whole[1024], 7);
  EXPECT_EQ(whole[1024 + 1024], 7);
  EXPECT_EQ(whole[1024 + 1025], 0);
  EXPECT_EQ(read(a), (Numbers{1, 2, 3})) << "the handles from before see the new memory";
}

TEST(ParameterSlab, a_write_to_the_whole_is_one_to_its_ranges_and_the_other_way_round) {
  Session& session = test_session();
  const Value a = leaf(vector_of(session, {1, 2})), b = leaf(vector_of(session, {3}));
  ParameterSlab::pack(Values{a, b});
  const Value whole = a.node()->slab->parameters().whole();
  const auto of_a = version_of(a), of_b = version_of(b), of_whole = version_of(whole);
  assign(a.detached(), vector_of(session, {5, 6}));
  EXPECT_EQ(version_of(a), of_a + 1);
  EXPECT_EQ(version_of(b), of_b);
  EXPECT_EQ(version_of(whole), of_whole + 1);
  assign(whole, full(session, whole.spec(), 1));
  EXPECT_EQ(version_of(a), of_a + 2);
  EXPECT_EQ(version_of(b), of_b + 1);
}

TEST(ParameterSlab, refuses_what_shares_its_memory) {
  Session& session = test_session();
  const Value a = leaf(vector_of(session, {1, 2}));
  EXPECT_EQ(message_of<UsageError>([&] { ParameterSlab::pack(Values{leaf(a.detached().view(f32({1}), 1))}); }),
            "pack: the parameter float32 [1] shares its memory with another tensor; accepted: a tensor of its own, each once");
  EXPECT_EQ(message_of<UsageError>([&] { ParameterSlab::pack(Values{a.detached()}); }), "pack: the parameter float32 [2] is no leaf; accepted: leaves");
}

TEST(ParameterSlab, refuses_leaves_of_two_sessions) {
  const auto one = Session::reference(), other = Session::reference();
  const Values leaves{leaf(vector_of(*one, {1})), leaf(vector_of(*other, {1, 2}))};
  EXPECT_EQ(message_of<UsageError>([&] { ParameterSlab::pack(leaves); }),
            "pack: the parameter float32 [2] belongs to another session than the first; accepted: leaves of one session");
  EXPECT_FALSE(leaves[0].node()->slab);
}

TEST(ParameterSlab, leaves_serve_on_where_there_was_no_room_for_gradients) {
  opencl::DeviceOptions options;
  options.memory_limit = 6 << 20;
  Session session(opencl::Device::open(options));
  std::vector<NamedValue> named;
  for (int i = 0; i < 512; ++i) named.push_back({std::to_string(i), leaf(vector_of(session, {1}))});  // a page each: 2 MiB
  const Values leaves = values_of(named);
  Value ballast = session.empty(f32({3 << 18}));
  EXPECT_THROW(ParameterSlab::pack(leaves), DeviceError);
  EXPECT_EQ(read(leaves[511]), Numbers{1});
  ballast = {};
  const auto sgd = optim::make("sgd", {{named}});
  sgd->step(Values(512, vector_of(session, {2})), 0.25);
  EXPECT_EQ(read(leaves[0]), Numbers{0.5});
  EXPECT_EQ(read(leaves[511]), Numbers{0.5});
}

TEST(ParameterSlab, packs_in_the_order_of_a_backward_pass) {
  Session& session = test_session();
  const Value a = leaf(vector_of(session, {1})), b = leaf(vector_of(session, {2})), unused = leaf(vector_of(session, {3}));
  pack_in_backward_order({a * b * b}, {unused, b, a});  // b's gradient is complete once both of its uses are passed
  const auto index = [](const Value& v) { return v.node()->index_in_slab; };
  EXPECT_EQ(a.node()->slab, unused.node()->slab);
  EXPECT_EQ(index(unused), 2u);
  EXPECT_EQ(index(b), 0u) << "of two that are complete at once the first named comes first";
  pack_in_backward_order({a * b}, {a, b});
  EXPECT_EQ(index(b), 0u) << "what lies in a slab stays";
}

TEST(ParameterSlab, weight_gradients_are_written_into_their_ranges) {
  Session& session = test_session();
  SlabTraining t(session);
  std::size_t copies = 0;
  const auto count = [&copies](const OpDef& op, std::span<const Value>, std::span<const Value>) { copies += &op == &copy_def(); };
  auto observation = session.interpreter().observe(count);
  t.step(t.inputs());
  observation.reset();
  EXPECT_EQ(copies, 0u);
  const Values places = t.optimizer->gradient_places();
  const Value loss = sum(square(t.net(input_of(session))));
  const Values found = gradient({loss}, values_of(t.optimizer->parameters()), {}, {.into = places});
  const Value again = sum(square(t.net(input_of(session))));
  const Values apart = gradient({again}, values_of(t.optimizer->parameters()));
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].storage(), places[i].storage());
    EXPECT_NE(apart[i].storage(), places[i].storage());
    EXPECT_EQ(read(found[i]), read(apart[i]));
  }
}

TEST(ParameterSlab, one_launch_updates_all) {
  Session& session = test_session();
  SlabTraining t(session);
  std::size_t updates = 0;
  const auto observation =
      session.interpreter().observe([&](const OpDef& op, std::span<const Value>, std::span<const Value>) { updates += &op == &momentum_update_def(); });
  t.step(t.inputs());
  EXPECT_EQ(updates, 1u);
}

TEST(ParameterSlab, order_of_gradients_is_that_of_the_backward_pass) {
  Session& session = test_session();
  TwoLayers net;
  net.materialise(session);
  const ParameterSet set = net.parameters();
  const Value loss = sum(square(net(input_of(session))));
  std::vector<std::size_t> seen;
  const Values parameters = values_of(set.parameters());
  const auto order = gradient_order({loss}, parameters);
  gradient({loss}, parameters, {}, {.ready = [&seen](std::size_t i, const Value&) { seen.push_back(i); }});
  EXPECT_EQ(set.parameters()[order[0]].name.substr(0, 6), "second");
  EXPECT_EQ(order, seen);
}

/// Runs steps; `frozen` says in which the first layer is frozen.
template <class Step>
void expect_frozen_steps_keep_it(SlabTraining& t, Step step) {
  for (const bool frozen : {false, true, false}) {
    if (frozen)
      t.net.first.freeze();
    else
      t.net.first.unfreeze();
    const Numbers first = t.weights(t.net.first), second = t.weights(t.net.second), velocity = read(t.optimizer->state()[0].value);
    step();
    EXPECT_EQ(t.weights(t.net.first) == first, frozen);
    EXPECT_EQ(read(t.optimizer->state()[0].value) == velocity, frozen) << "the slot of " << t.optimizer->state()[0].name;
    EXPECT_NE(t.weights(t.net.second), second);
  }
}

TEST(ParameterSlab, freezing_after_an_optimizer_was_built_works_in_eager) {
  SlabTraining t(test_session());
  expect_frozen_steps_keep_it(t, [&] { t.step(t.inputs()); });
}

TEST(ParameterSlab, freezing_works_in_a_step_captured_afterwards) {
  SlabTraining t(test_session());
  expect_frozen_steps_keep_it(t, [&] { graph::compile(t.session, [&](const Values& in) { return t.step(in); })(t.inputs()); });
}

TEST(ParameterSlab, freezing_after_compile_is_seen) {
  SlabTraining t(test_session());
  graph::Compiled step = graph::compile(t.session, [&](const Values& in) { return t.step(in); });
  expect_frozen_steps_keep_it(t, [&] { step(t.inputs()); });
  EXPECT_EQ(step.plans().size(), 2u) << "thawed, the first plan serves again";
}

TEST(ParameterSlab, changing_mode_after_compile_is_seen) {
  Session& session = test_session();
  nn::BatchNorm2d norm(2);
  norm.materialise(session);
  graph::Compiled forward = graph::compile(session, [&](const Values& in) -> Values { return {norm(in[0]).detached()}; });
  const Value x = session.tensor(f32({2, 1, 1, 2}), Numbers{1, 2, 3, 4});
  const Numbers by_batch = read(forward({x})[0]);
  norm.eval();
  EXPECT_NE(read(forward({x})[0]), by_batch);
  norm.train();
  EXPECT_EQ(read(forward({x})[0]), by_batch);
  EXPECT_EQ(forward.plans().size(), 2u);
}

TEST(ParameterSlab, freezing_works_in_a_graph) {
  SlabTraining t(test_session());
  expect_frozen_steps_keep_it(t, [&] {
    graph::Graph graph(t.session, "training");
    const auto building = graph.as_default();
    const Value x = graph.placeholder(f32({2, 3}), "x"), hyper = graph.placeholder(t.optimizer->hyper_specs()[0], "hyper");
    const auto train = graph.group("train", [&] { t.step({x, hyper}); });
    const Values in = t.inputs();
    graph::Runner(graph).run({{x, in[0]}, {hyper, in[1]}}, {train});
  });
}

TEST(ParameterSlab, a_saved_training_step_goes_on_in_its_slabs) {
  const TemporaryFolder folder;
  SlabTraining t(test_session());
  const Values in = t.inputs();
  const auto program = std::make_shared<const Program>(capture(t.session, {in[0].spec(), in[1].spec()}, [&](const Values& x) { return t.step(x); }));
  Executor executor(t.session, program);
  executor.run(in);  // weights and velocity have moved
  save_graph(*program, folder.path() / "step.json");
  Session other(shared_test_device());
  Executor loaded(other, std::make_shared<const Program>(load_graph(other, folder.path() / "step.json").program));
  const Values same{input_of(other), other.tensor(in[1].spec(), std::span<const double>(read(in[1])))};
  Numbers before;
  for (int step = 0; step < 3; ++step) {
    const Numbers loss = read(executor.run(in)[0]);
    EXPECT_EQ(read(loaded.run(same)[0]), loss) << step;
    EXPECT_NE(loss, before);
    before = loss;
  }
}

TEST(ParameterSlab, a_graphs_training_step_equals_the_eager_one_with_every_pass) {
  const auto trained = [](bool captured) {
    Session session(shared_test_device(), 3);
    SlabTraining t(session);
    graph::Compiled compiled = graph::compile(session, [&](const Values& in) { return t.step(in); });
    for (int step = 0; step < 3; ++step) captured ? compiled(t.inputs()) : t.step(t.inputs());
    return t.weights(t.net.first);
  };
  const Numbers eager = trained(false), graph = trained(true);
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(eager[i], graph[i], 1e-6);
}

TEST(ParameterSlab, two_passes_in_one_program_are_not_taken_for_one) {
  SlabTraining t(test_session()), apart(test_session());
  for (auto* from : {&t, &apart})
    from->net.visit([](const std::string&, nn::Module& m) {
      for (const auto& p : m.own_parameters()) assign(p->value.detached(), full(p->value.session(), p->spec, 0.1));
    });
  const auto both = [&](const Values& in) {
    t.step(in);
    return t.step(in);
  };
  const double second = read(graph::compile(t.session, both)(t.inputs())[0])[0];
  apart.step(apart.inputs());
  EXPECT_NEAR(read(apart.step(apart.inputs())[0])[0], second, 1e-4);
  EXPECT_EQ(t.weights(t.net.second).size(), 8u);
}

TEST(ParameterSlab, a_group_added_later_is_updated_with_its_own_numbers) {
  Session& session = test_session();
  const Value a = leaf(vector_of(session, {1})), b = leaf(vector_of(session, {1}));
  const auto sgd = optim::make("sgd", {{{{"a", a}}}});
  sgd->step({vector_of(session, {1})}, 0.5);
  sgd->add_group({{{"b", b}}, 2});
  sgd->step({vector_of(session, {1}), vector_of(session, {1})}, 0.25);
  EXPECT_EQ(read(a), Numbers{1 - 0.5 - 0.25});
  EXPECT_EQ(read(b), Numbers{1 - 2 * 0.25});
  EXPECT_EQ(message_of<UsageError>([&] { sgd->add_group({{{"c", a}}}); }), "optimizer: c is the same tensor as a; accepted: each parameter once");
}

TEST(ParameterSlab, two_optimizers_over_one_slab_update_their_own) {
  Session& session = test_session();
  const Value a = leaf(vector_of(session, {1})), b = leaf(vector_of(session, {1}));
  ParameterSlab::pack(Values{a, b});
  const auto of_a = optim::make("momentum", {{{{"a", a}}}}), of_b = optim::make("adam", {{{{"b", b}}}});
  of_a->step({vector_of(session, {1})}, 0.5);
  EXPECT_EQ(read(b), Numbers{1});
  of_b->step({vector_of(session, {1})}, 0.5);
  EXPECT_EQ(read(a), Numbers{0.5});
  EXPECT_NEAR(read(b)[0], 0.5, 1e-6);
}

struct Tied : nn::Module {
  nn::Linear& in = add<nn::Linear>("in", 3, 3, nn::Bias::no);
  nn::Linear& out = add<nn::Linear>("out", 3, 3, nn::Bias::no);
  Tied() { tie(out.weight(), in.weight()); }
  Value forward(Value x) override { return out(in(std::move(x))); }
};

TEST(ParameterSlab, a_tied_tensor_is_one_leaf_one_update_and_saved_under_both_names) {
  Session& session = test_session();
  Tied net;
  net.materialise(session);
  const ParameterSet set = net.parameters();
  EXPECT_EQ(set.parameters().size(), 2u);
  EXPECT_EQ(set.trainable().size(), 1u);
  EXPECT_EQ(set.parameter_elements(), 9);
  EXPECT_EQ(net.parameter_elements(), 9);
  assign(net.in.weight().tensor().detached(), session.tensor(f32({3, 3}), Numbers{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  const auto sgd = optim::make("sgd", optim::all_in_one(set));
  // y = x W W: with W = 1 both uses contribute the same, in all 2 x^T 1.
  const Value loss = sum(net(input_of(session)));
  sgd->step(gradient({loss}, values_of(sgd->parameters()), {}, {.into = sgd->gradient_places()}), 1);
  EXPECT_EQ(read(net.out.weight().tensor()), (Numbers{1 - 3, -3, -3, 2, 1 + 2, 2, -4, -4, 1 - 4}));
  const auto state = nn::state_dict(net);
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state[0].bytes, state[1].bytes);
  EXPECT_EQ(state[1].name, "out.weight");

  Tied loaded;
  nn::load_state_dict(loaded, session, std::vector<NamedTensor>{{state[0].name, state[0].spec, state[0].bytes}});
  EXPECT_EQ(read(loaded.out.weight().tensor()), read(net.in.weight().tensor())) << "the second name may be absent";
  std::vector<std::byte> others = state[1].bytes;
  others[0] ^= std::byte{1};
  const std::vector<NamedTensor> torn{{"in.weight", state[0].spec, state[0].bytes}, {"out.weight", state[1].spec, others}};
  for (const auto mismatch : {nn::Mismatch::refuse, nn::Mismatch::keep_output_layers})
    EXPECT_EQ(message_of<DataError>([&] { nn::load_state_dict(loaded, session, torn, mismatch); }),
              "state dict: 1 names do not fit; with contents that differ, though the model has one tensor for both: in.weight and out.weight");
}

TEST(ParameterSlab, eager_optimizers_read_grad_and_zero_grad_forgets_it) {
  Session& session = test_session();
  const eager::Tensor w = eager::tensor(session, {2., 3.}).requires_grad_();
  const auto sgd = optim::make("sgd", {{{{"w", w}}}});
  sgd->set_rate(0.5);
  for (int pass = 0; pass < 2; ++pass) (w * w).sum().backward();
  EXPECT_EQ(read(w.grad()), (Numbers{8, 12})) << "passes add up";
  sgd->step();
  EXPECT_EQ(read(w), (Numbers{2 - 4, 3 - 6}));
  sgd->zero_grad();
  EXPECT_FALSE(w.grad().defined());
  sgd->step();
  EXPECT_EQ(read(w), (Numbers{-2, -3})) << "without a gradient it stays";
  w.requires_grad_(false);
  EXPECT_FALSE((w * w).requires_grad());
  w.requires_grad_();
  w.sum().backward();
  sgd->step();
  EXPECT_EQ(read(w), (Numbers{-2.5, -3.5})) << "the optimizer still knows it";
}

TEST(ParameterSlab, a_modules_zero_grad_forgets_the_gradients_of_all_its_parameters) {
  Session& session = test_session();
  Tied net;
  net.materialise(session);
  const eager::Tensor shared = net.in.weight().tensor();
  const auto pass = [&] {
    eager::Tensor(sum(net(input_of(session)))).backward();
    return read(shared.grad());
  };
  const Numbers once = pass();
  EXPECT_NE(pass(), once) << "passes add up";
  net.freeze();
  net.zero_grad();
  net.unfreeze();
  EXPECT_FALSE(shared.grad().defined());
  EXPECT_EQ(pass(), once);
  const auto sgd = optim::make("sgd", optim::all_in_one(net.parameters()));
  net.zero_grad();
  EXPECT_EQ(pass(), once) << "in its place in a slab";
  net.zero_grad();
  sgd->step();
  net.zero_grad();
  EXPECT_EQ(pass(), once) << "the step without gradients changed nothing";
}

TEST(ParameterSlab, clips_by_the_norm_of_all_gradients) {
  Session& session = test_session();
  const Value a = leaf(vector_of(session, {0})), b = leaf(full(session, f32({2000}), 0));
  const auto sgd = optim::make("sgd", {{{{"a", a}, {"b", b}}}});
  Values gradients{vector_of(session, {3}), full(session, f32({2000}), 4 / std::sqrt(2000.0))};
  const Value norm = sgd->clip_norm(gradients, 1);
  EXPECT_NEAR(read(norm)[0], 5, 1e-5);
  EXPECT_NEAR(read(gradients[0])[0], 0.6, 1e-6);
  Values few{vector_of(session, {0.5}), Value()};
  EXPECT_NEAR(read(sgd->clip_norm(few, 1))[0], 0.5, 1e-6) << "a parameter without a gradient does not count, whatever its range holds";
  EXPECT_EQ(read(few[0])[0], 0.5);
}

}  // namespace
}  // namespace gemel::testing
