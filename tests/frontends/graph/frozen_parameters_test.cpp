// Parameters that are frozen, thawed or added after an optimizer was built: they stay as they are, and Adam's corrections count their own steps;
// in eager, compiled and Graph steps, with micro-batches, and from files.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/graph/runner.h"
#include "frontends/train/checkpoint/checkpoint.h"
#include "frontends/train/step.h"
#include "opencl/device/device.h"
#include "tests/support/formats/graph_file_text.h"
#include "tests/support/message_of.h"
#include "tests/support/models/row_gradient_training.h"
#include "tests/support/models/two_layers.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {
namespace {

/// The sum of squares of what the layers make of the rows.
class Squares : public train::Task {
 public:
  explicit Squares(TwoLayers& net) : net_(net) {}
  nn::Module& module() override { return net_; }
  std::vector<std::string> inputs() const override { return {"x"}; }
  train::Outcome forward(const train::Inputs& batch) override { return {sum(square(net_(batch["x"]))), {}}; }

 private:
  TwoLayers& net_;
};

datasets::Batch rows_of(std::int64_t count, int step) {
  std::vector<float> x;
  for (std::int64_t i = 0; i < 3 * count; ++i) x.push_back(static_cast<float>((i * 5 + step) % 7) / 4 - 0.75F);
  return {.tensors = {datasets::host_tensor<float>("x", {count, 3}, x)}, .samples = count};
}

struct Layers {
  Session session{shared_test_device()};
  TwoLayers net{};
  std::unique_ptr<optim::Optimizer> optimizer{};
  explicit Layers(std::string_view name) {
    net.materialise(session);
    optimizer = optim::make(name, optim::all_in_one(net.parameters()), {.weight_decay = 0.0625});
  }
  void freeze_first(bool frozen) {
    if (frozen)
      net.first.freeze();
    else
      net.first.unfreeze();
  }
  /// Parameters and slots, of the layer that is frozen in turn or of the other.
  std::vector<Numbers> of(std::string_view layer) const {
    std::vector<Numbers> out;
    const ParameterSet set = net.parameters();
    for (const NamedValue& p : set.parameters())
      if (p.name.starts_with(layer)) out.push_back(read(p.value));
    for (const NamedValue& s : optimizer->state())
      if (s.name.find("." + std::string(layer)) != std::string::npos) out.push_back(read(s.value));
    return out;
  }
};

class FrozenIn : public ::testing::TestWithParam<train::Frontend> {};
INSTANTIATE_TEST_SUITE_P(, FrozenIn, ::testing::Values(train::Frontend::eager, train::Frontend::graph),
                         [](const auto& i) { return train::to_string(i.param); });

/// The first layer's state after each step; it is frozen in some. The last three batches are smaller: first micro-batches are as before, further ones are not.
std::vector<std::vector<Numbers>> in_micro_batches(train::Frontend frontend, bool frozen_first) {
  Layers l("momentum");
  Squares task(l.net);
  train::Step step(l.session, task, l.optimizer.get(), {frontend, parse_passes("none"), 2});
  std::vector<std::vector<Numbers>> out;
  for (int s = 1; s <= 7; ++s) {
    const bool frozen = (s % 2 == 0) != frozen_first;
    l.freeze_first(frozen);
    const auto first = l.of("first"), second = l.of("second");
    step.train(rows_of(s < 5 ? 4 : 3, s), 0.01, s).get();
    EXPECT_EQ(l.of("first") == first, frozen) << to_string(frontend) << ", step " << s;
    EXPECT_NE(l.of("second"), second) << s;
    out.push_back(l.of("first"));
  }
  return out;
}

TEST_P(FrozenIn, steps_with_micro_batches_it_stays_and_thawed_it_moves) {
  for (const bool frozen_first : {false, true}) EXPECT_EQ(in_micro_batches(GetParam(), frozen_first), in_micro_batches(train::Frontend::eager, frozen_first));
}

TEST_P(FrozenIn, steps_with_micro_batches_a_group_added_later_moves) {
  Layers l("sgd");
  std::vector<NamedValue> all = l.net.parameters().trainable();
  const std::vector<NamedValue> later(all.begin() + 2, all.end());
  all.resize(2);
  l.optimizer = optim::make("momentum", {{all}});
  Squares task(l.net);
  train::Step step(l.session, task, l.optimizer.get(), {GetParam(), parse_passes("none"), 2});
  step.train(rows_of(4, 1), 0.01, 1).get();
  const Numbers before = read(later[0].value);
  l.optimizer->add_group({later});
  step.train(rows_of(4, 2), 0.01, 2).get();
  EXPECT_NE(read(later[0].value), before);
}

/// x and the operation train of a Graph, built once.
struct InGraph {
  graph::Graph graph;
  graph::Runner runner{graph};
  Value x, loss;
  graph::Operation train;
  InGraph(Session& session, TwoLayers& net, optim::Optimizer& optimizer) : graph(session, "training") {
    const auto building = graph.as_default();
    x = graph.placeholder(f32({4, 3}), "x");
    loss = graph.named(sum(square(net(x))), "loss");
    train = graph.minimize(loss, optimizer, "train");
  }
  void step(int s) { runner.run({{x, graph.session().tensor(f32({4, 3}), rows_of(4, s)["x"].bytes)}}, {train}); }
};

TEST(Frozen, after_minimize_a_parameter_and_its_slots_stay_in_the_same_graph) {
  for (const char* name : {"momentum", "adamw"}) {
    Layers l(name);
    l.optimizer->set_rate(0.01);
    InGraph g(l.session, l.net, *l.optimizer);
    for (int s = 1; s <= 5; ++s) {
      const bool frozen = s == 2 || s == 3;
      l.freeze_first(frozen);
      const auto first = l.of("first"), second = l.of("second");
      g.step(s);
      EXPECT_EQ(l.of("first") == first, frozen) << name << ", step " << s;
      EXPECT_NE(l.of("second"), second) << s;
    }
    EXPECT_EQ(g.runner.plans().size(), 2u) << "thawed, the first plan serves again";
    EXPECT_EQ(l.optimizer->parameter_steps(), (std::vector<std::int64_t>{3, 3, 5, 5}));
  }
}

TEST(Frozen, after_minimize_a_table_whose_gradient_is_rows_stays) {
  Session session(shared_test_device());
  RowModel model(GradientForm::rows);
  model.materialise(session);
  const auto adam = optim::make("adam", optim::all_in_one(model.parameters()));
  graph::Graph graph(session, "rows");
  const auto building = graph.as_default();
  const Value words = graph.placeholder(i64({5}), "words");
  const auto train = graph.minimize(sum(square(model(words))), *adam);
  graph::Runner runner(graph);
  const auto step = [&](const Numbers& w) { runner.run({{words, words_of(session, w)}}, {train}); };
  const auto table = [&] { return std::array{read(*model.parameters().find("table.weight")), read(adam->state()[0].value), read(adam->state()[1].value)}; };
  step(kRowSteps[0]);
  model.table.freeze();
  const auto before = table();
  const Numbers layer = read(*model.parameters().find("layer.weight"));
  step(kRowSteps[1]);
  EXPECT_EQ(table(), before);
  EXPECT_NE(read(*model.parameters().find("layer.weight")), layer);
  model.table.unfreeze();
  step(kRowSteps[2]);
  EXPECT_NE(table(), before);
}

TEST(Frozen, thawed_after_minimize_a_parameter_without_a_gradient_is_refused_by_name) {
  const TemporaryFolder folder;
  Layers l("momentum");
  l.freeze_first(true);
  InGraph g(l.session, l.net, *l.optimizer);
  g.step(1);
  g.graph.save(folder.path() / "frozen.json");
  l.freeze_first(false);
  const std::string refusal =
      " was frozen when 'train' was added and is no longer, the graph has no gradient for it; accepted: frozen as it was, or a new graph";
  EXPECT_EQ(message_of<UsageError>([&] { g.step(2); }), "run: first.weight" + refusal);
  const Value x = l.session.tensor(f32({4, 3}), rows_of(4, 2)["x"].bytes);
  EXPECT_TRUE(g.runner.run({{g.x, x}}, {g.loss})[0]) << "the loss may be asked for";
  l.freeze_first(true);
  g.step(2);

  Session other(shared_test_device());
  const auto loaded = graph::Graph::load(other, folder.path() / "frozen.json");
  graph::Runner runner(*loaded);
  const auto step = [&] { runner.run({{loaded->value("x"), other.tensor(f32({4, 3}), rows_of(4, 2)["x"].bytes)}}, {loaded->operation("train")}); };
  step();
  EXPECT_EQ(read(loaded->value("second.weight")), read(l.net.second.weight().tensor()));
  set_wants_gradient(loaded->value("first.weight"), true);
  EXPECT_EQ(message_of<UsageError>(step), "run: first.weight" + refusal);
}

TEST(Frozen, in_a_loaded_graph_a_parameter_stays_and_its_count_goes_on) {
  const TemporaryFolder folder;
  Layers l("adam");
  l.optimizer->set_rate(0.01);
  InGraph g(l.session, l.net, *l.optimizer);
  g.step(1);
  l.freeze_first(true);
  g.step(2);
  g.graph.save(folder.path() / "graph.json");
  g.graph.save_variables(folder.path() / "variables.safetensors");
  Session other(shared_test_device());
  const auto loaded = graph::Graph::load(other, folder.path() / "graph.json");
  graph::Runner runner(*loaded);
  const auto step = [&](int s) { runner.run({{loaded->value("x"), other.tensor(f32({4, 3}), rows_of(4, s)["x"].bytes)}}, {loaded->operation("train")}); };
  const Numbers first = read(loaded->value("first.weight"));
  step(3);
  g.step(3);
  EXPECT_EQ(read(loaded->value("first.weight")), first);
  const auto thaw = [&] {
    for (const NamedValue& p : loaded->variables().parameters()) set_wants_gradient(p.value, true);
    l.freeze_first(false);
  };
  thaw();
  step(4);
  g.step(4);
  EXPECT_NE(read(loaded->value("first.weight")), first);
  EXPECT_EQ(read(loaded->value("first.weight")), read(l.net.first.weight().tensor()));
  loaded->restore_variables(folder.path() / "variables.safetensors");
  EXPECT_EQ(loaded->hyperparameters("train").parameter_steps(), (std::vector<std::int64_t>{1, 1, 2, 2}));
}

TEST(Frozen, a_graphs_file_without_settings_of_its_parameters_is_refused) {
  const TemporaryFolder folder;
  Session session(shared_test_device());
  const Value w = leaf(session.tensor(f32({2}), Numbers{1, -2}));
  const auto adam = optim::make("adam", {{{{"w", w}}}});
  graph::Graph graph(session, "square");
  const auto building = graph.as_default();
  const auto train = graph.minimize(sum(square(w)), *adam, "train");
  graph::Runner(graph).run({}, {train});
  const auto path = folder.path() / "graph.json";
  graph.save(path);
  auto file = nlohmann::ordered_json::parse(read_text(path));
  int removed = 0;
  const std::function<void(nlohmann::ordered_json&)> strip = [&](nlohmann::ordered_json& j) {
    if (j.is_object())
      for (const char* key : {"row.w", "group.w", "steps.w", "gradient.w"}) removed += static_cast<int>(j.erase(key));
    for (auto& item : j)
      if (item.is_structured()) strip(item);
  };
  strip(file);
  ASSERT_EQ(removed, 4);
  std::string text = file.dump();
  testing::sign(text);
  write_text(path, text);
  Session other(shared_test_device());
  EXPECT_EQ(message_of<DataError>([&] { graph::Graph::load(other, path); }),
            "graph: " + path.string() + ": train has hyperparameters float32 [0, 4]; accepted: float32 [1, 4]");
}

TEST(Frozen, a_refused_minimize_leaves_the_graph_as_it_was) {
  Session session(shared_test_device());
  RowModel model(GradientForm::rows);
  model.materialise(session);
  const auto momentum = optim::make("momentum", optim::all_in_one(model.parameters())), sgd = optim::make("sgd", optim::all_in_one(model.parameters()));
  graph::Graph graph(session, "rows");
  const auto building = graph.as_default();
  const Value words = graph.placeholder(i64({5}), "words");
  const Value loss = graph.named(sum(square(model(words))), "loss");
  const std::string program = to_string(graph.program());
  const std::string said = message_of<UsageError>([&] { graph.minimize(loss, *momentum, "train"); });
  EXPECT_TRUE(said.starts_with("sgd with momentum: the gradient of table.weight is rows")) << said;
  EXPECT_EQ(to_string(graph.program()), program);
  EXPECT_EQ(graph.variables().parameters().size(), 0u);
  const auto train = graph.minimize(loss, *sgd, "train");
  const Numbers table = read(*model.parameters().find("table.weight"));
  graph::Runner(graph).run({{words, words_of(session, kRowSteps[0])}}, {train});
  EXPECT_NE(read(*model.parameters().find("table.weight")), table);
}

/// PyTorch's Adam on one number: a step of its own for each gradient. Source: torch/optim/adam.py, 1.13, _single_tensor_adam
struct Adam {
  double p, m = 0, v = 0;
  int steps = 0;
  void move(double gradient, double rate) {
    ++steps;
    m = 0.9 * m + 0.1 * gradient;
    v = 0.999 * v + 0.001 * gradient * gradient;
    p -= rate / (1 - std::pow(0.9, steps)) * m / (std::sqrt(v) / std::sqrt(1 - std::pow(0.999, steps)) + 1e-8);
  }
};

/// Three parameters: one always there, one that is frozen in steps 1 to 3 and 6, one of a group that is added after step 3.
void expect_steps_of_their_own(bool compiled) {
  Session session(shared_test_device());
  const auto one = [&] { return leaf(session.tensor(f32({1}), Numbers{1})); };
  const Value always = one(), thawed = one(), added = one();
  const auto adam = optim::make("adam", {{{{"always", always}, {"thawed", thawed}}}});
  const auto body = [&](const Values& in) -> Values {
    Value loss = sum(in[0] * always * always) + sum(in[0] * thawed * thawed);
    if (adam->parameters().size() == 3) loss = loss + sum(in[0] * added * added);
    adam->apply_updates(gradient({loss}, values_of(adam->parameters()), {}, {.into = adam->gradient_places()}), {in[1]});
    return {};
  };
  graph::Compiled step = graph::compile(session, body);
  std::size_t updates = 0;
  const auto observation =
      session.interpreter().observe([&](const OpDef& op, std::span<const Value>, std::span<const Value>) { updates += op.name == "adam_update"; });
  std::array<Adam, 3> expected{Adam{1}, Adam{1}, Adam{1}};
  constexpr double rate = 0.125;
  for (int s = 1; s <= 7; ++s) {
    const bool frozen = s <= 3 || s == 6;
    set_wants_gradient(thawed, !frozen);
    if (s == 4) adam->add_group({{{"added", added}}});
    const double slope = 0.25 + 0.125 * s;
    const Values in{session.tensor(f32({1}), Numbers{slope}), adam->hyper(rate)[0]};
    compiled ? step(in) : body(in);
    adam->advance();
    expected[0].move(2 * slope * expected[0].p, rate);
    if (!frozen) expected[1].move(2 * slope * expected[1].p, rate);
    if (s >= 4) expected[2].move(2 * slope * expected[2].p, rate);
    // A few float32 roundings a step.
    const std::array<Value, 3> all{always, thawed, added};
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(read(all[i])[0], expected[i].p, 1e-5) << "parameter " << i << ", step " << s;
  }
  EXPECT_EQ(adam->parameter_steps(), (std::vector<std::int64_t>{7, 3, 4}));
  EXPECT_EQ(adam->steps(), 7);
  EXPECT_EQ(updates, 7u + 4u) << "one a step and slab: what is added later lies in a slab of its own";
}

TEST(Frozen, adam_corrects_by_each_parameters_own_steps_in_eager) { expect_steps_of_their_own(false); }
TEST(Frozen, adam_corrects_by_each_parameters_own_steps_in_a_compiled_step) { expect_steps_of_their_own(true); }

TEST_P(FrozenIn, runs_go_on_from_a_checkpoint_bit_for_bit) {
  const TemporaryFolder folder;
  const auto run = [&](int from, int to) {
    Layers l("adam");
    Squares task(l.net);
    train::Step step(l.session, task, l.optimizer.get(), {GetParam()});
    const auto path = folder.path() / "checkpoint-3.safetensors";
    if (from > 1) train::load_checkpoint(path, l.net, *l.optimizer, l.session, {});
    for (int s = from; s <= to; ++s) {
      l.freeze_first(s < 3);
      step.train(rows_of(4, s), 0.01, s).get();
    }
    train::RunState state;
    state.step = to;
    train::CheckpointFolder checkpoints = train::begin_in(folder.path());
    if (from == 1) train::save_checkpoint(checkpoints, l.net, *l.optimizer, state, {});
    return std::pair(l.of("first"), l.of("second"));
  };
  run(1, 3);
  EXPECT_EQ(run(4, 6), run(1, 6));
}

TEST(Frozen, counts_of_steps_that_do_not_fit_are_refused) {
  Layers l("sgd");
  const std::vector<std::int64_t> counts{1, 2};
  EXPECT_EQ(message_of<DataError>([&] { l.optimizer->load_state({}, 2, counts); }),
            "optimizer state: it does not fit; 2 counts of steps are given, accepted: 4");
  EXPECT_EQ(l.optimizer->steps(), 0);
}

TEST(Frozen, a_group_for_which_memory_is_short_is_not_added) {
  const auto device = opencl::Device::open({.memory_limit = 1 << 22});
  Session session(device);
  const Value small = leaf(full(session, f32({1024}), 1)), other = leaf(full(session, f32({1024}), 1));
  ParameterSlab::pack(Values{other});
  const auto adam = optim::make("adam", {{{{"small", small}}}});
  constexpr std::int64_t third = (1 << 20) / 3;  // parameters and gradients fit, not two slots with them
  {
    const Value large = leaf(full(session, f32({third}), 1));
    EXPECT_THROW(adam->add_group({{{"other", other}, {"large", large}}}), DeviceError);
  }
  EXPECT_EQ(adam->parameters().size(), 1u);
  EXPECT_EQ(adam->groups().size(), 1u);
  adam->step({full(session, f32({1024}), 1)}, 0.5);
  EXPECT_NEAR(read(small)[0], 0.5, 1e-6);
}

}  // namespace
}  // namespace gemel::testing
