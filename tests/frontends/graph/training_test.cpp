// What a user of TensorFlow 1 does with a graph besides building it: feeds anything, leaves the batch open, minimises, saves and goes on.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/graph/runner.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "tests/support/device/test_device.h"
#include "tests/support/formats/graph_file_text.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::graph {
namespace {

using testing::message_of;
using List = std::vector<double>;

List ramp(std::int64_t count, double step = 0.125) {
  List out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(step * static_cast<double>((i * 7) % 11) - 0.5);
  return out;
}

/// Batch normalisation keeps statistics, dropout draws.
struct Net : nn::Module {
  nn::Linear& first = add<nn::Linear>("first", 3, 6);
  nn::BatchNorm2d& norm = add<nn::BatchNorm2d>("norm", 6);
  nn::Dropout& dropout = add<nn::Dropout>("dropout", 0.25);
  nn::Linear& last = add<nn::Linear>("last", 6, 4);
  Value forward(Value x) override {
    const std::int64_t batch = x.shape()[0];
    Value y = reshape(norm(reshape(first(std::move(x)), Shape{batch, 1, 1, 6})), Shape{batch, 6});
    return last(dropout(relu(std::move(y))));
  }
};

/// A graph that trains a Net: placeholders x and labels, the values loss and logits, the operation train.
struct Trained {
  explicit Trained(Session& in_session, std::int64_t batch, std::string_view optimizer_name = "adam") : session(in_session), graph(in_session, "trained") {
    net.materialise(session);
    optimizer = optim::make(optimizer_name, optim::all_in_one(net.parameters()));
    optimizer->set_rate(0.05);
    const auto building = graph.as_default();
    graph.add(net.parameters());
    const Value x = graph.placeholder(f32({batch, 3}), "x"), labels = graph.placeholder(i64({batch}), "labels");
    const Value logits = graph.named(net(x), "logits");
    graph.minimize(graph.named(cross_entropy(logits, labels), "loss"), *optimizer, "train");
  }
  Session& session;
  Net net;
  std::unique_ptr<optim::Optimizer> optimizer;
  Graph graph;
};

std::vector<Feed> batch_of(const Graph& graph, std::int64_t size) {
  List labels;
  for (std::int64_t i = 0; i < size; ++i) labels.push_back(static_cast<double>((i * 5) % 4));
  return {{graph.value("x"), graph.session().tensor(f32({size, 3}), ramp(3 * size))}, {graph.value("labels"), graph.session().tensor(i64({size}), labels)}};
}

/// The loss of so many further steps.
std::vector<List> train(Graph& graph, int steps, std::int64_t batch) {
  Runner runner(graph);
  std::vector<List> out;
  for (int i = 0; i < steps; ++i) out.push_back(read(runner.run(batch_of(graph, batch), {graph.value("loss"), graph.operation("train")})[0]));
  return out;
}

/// Parameters, statistics, slots, by name.
std::map<std::string, List> contents(const Graph& graph) {
  std::map<std::string, List> out;
  for (const auto& list : {graph.variables().parameters(), graph.variables().buffers()})
    for (const auto& [name, value] : list) out[name] = read(value);
  return out;
}

TEST(DeviceGraphTraining, minimize_equals_the_same_steps_computed_at_once) {
  for (const char* name : {"sgd", "nesterov", "adamw", "rmsprop"}) {
    Session in_graph(testing::shared_test_device()), at_once(testing::shared_test_device());
    Trained trained(in_graph, 5, name);
    const std::vector<List> losses = train(trained.graph, 4, 5);
    Net net;
    net.materialise(at_once);
    const auto optimizer = optim::make(name, optim::all_in_one(net.parameters()));
    optimizer->set_rate(0.05);
    const auto feeds = batch_of(trained.graph, 5);
    const Value x = at_once.tensor(f32({5, 3}), ramp(15)), labels = at_once.tensor(i64({5}), read(feeds[1].second));
    for (int step = 0; step < 4; ++step) {
      at_once.begin_random_step(step);
      const Value loss = cross_entropy(net(x), labels);
      EXPECT_EQ(read(loss), losses[std::size_t(step)]) << name << " step " << step;
      optimizer->step(gradient({loss}, values_of(optimizer->parameters())), 0.05);
    }
    EXPECT_EQ(optimizer->steps(), trained.optimizer->steps());
    const ParameterSet parameters = net.parameters();
    for (const auto& [parameter, value] : parameters.parameters()) EXPECT_EQ(read(value), read(trained.graph.value(parameter))) << name << " " << parameter;
    for (const auto& [slot, value] : optimizer->state()) EXPECT_EQ(read(value), read(trained.graph.value("train." + slot))) << name << " " << slot;
  }
}

TEST(DeviceGraphTraining, a_saved_graph_goes_on_as_the_one_that_stayed) {
  const testing::TemporaryFolder folder;
  Session session(testing::shared_test_device()), other(testing::shared_test_device());
  Trained trained(session, 5);
  train(trained.graph, 3, 5);
  trained.graph.save(folder.path() / "trained.json");
  const auto loaded = Graph::load(other, folder.path() / "trained.json");
  EXPECT_EQ(loaded->name(), "trained");
  EXPECT_EQ(loaded->hyperparameters("train").steps, 3);
  EXPECT_EQ(loaded->hyperparameters("train").rate, 0.05);
  EXPECT_EQ(contents(*loaded), contents(trained.graph));
  EXPECT_EQ(train(*loaded, 3, 5), train(trained.graph, 3, 5)) << "draws, corrections and slots go on";
  EXPECT_EQ(contents(*loaded), contents(trained.graph));
  loaded->save(folder.path() / "again.json");
  Graph::load(other, folder.path() / "again.json")->save(folder.path() / "third.json");
  const auto text = [&](const char* name) { return testing::read_text(folder.path() / name); };
  EXPECT_EQ(text("again.json"), text("third.json"));
  EXPECT_EQ(text("again.safetensors"), text("third.safetensors"));
}

TEST(DeviceGraphTraining, a_loaded_graph_has_histories_and_grows) {
  const testing::TemporaryFolder folder;
  Session session(testing::shared_test_device()), other(testing::shared_test_device());
  Net net;
  net.materialise(session);
  Graph graph(session, "scores");
  {
    const auto building = graph.as_default();
    graph.add(net.parameters());
    graph.named(net(graph.placeholder(f32({5, 3}), "x")), "scores");
  }
  graph.save(folder.path() / "a.json");
  const auto loaded = Graph::load(other, folder.path() / "a.json");
  std::vector<Values> found;
  for (Graph* g : {&graph, loaded.get()}) {
    const auto building = g->as_default();
    const Values slopes = g->gradients(sum(square(g->value("scores"))), {g->value("first.weight"), g->value("norm.bias")});
    found.push_back(Runner(*g).run({{g->value("x"), g->session().tensor(f32({5, 3}), ramp(15))}}, {slopes[0], slopes[1], dropout(g->value("scores"), 0.5)}));
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(read(found[0][i]), read(found[1][i])) << i;
  set_wants_gradient(loaded->value("first.weight"), false);
  loaded->save(folder.path() / "frozen.json");
  const auto frozen = Graph::load(other, folder.path() / "frozen.json");
  EXPECT_FALSE(frozen->value("first.weight").wants_gradient());
  EXPECT_TRUE(frozen->value("last.weight").wants_gradient());
}

TEST(DeviceGraphTraining, variables_are_saved_and_restored_by_name) {
  const testing::TemporaryFolder folder;
  Session session(testing::shared_test_device());
  Trained trained(session, 5);
  train(trained.graph, 2, 5);
  trained.graph.save_variables(folder.path() / "two.safetensors");
  const auto after_two = contents(trained.graph);
  const auto losses = train(trained.graph, 3, 5);
  EXPECT_NE(contents(trained.graph), after_two);
  trained.graph.restore_variables(folder.path() / "two.safetensors");
  EXPECT_EQ(contents(trained.graph), after_two);
  EXPECT_EQ(trained.optimizer->steps(), 2);
  EXPECT_EQ(train(trained.graph, 3, 5), losses);

  Graph another(session, "another");
  another.variable(full(session, f32({2, 3}), 0), "first.bias");
  const std::string refused = message_of<DataError>([&] { another.restore_variables(folder.path() / "two.safetensors"); });
  for (const char* part :
       {"does not fit the graph 'another'", "first.bias is float32 [6], accepted: float32 [2, 3]", "last.weight is unknown", "train.steps is unknown"})
    EXPECT_NE(refused.find(part), std::string::npos) << refused;
}

TEST(DeviceGraphTraining, an_optimizer_may_come_after_the_forward_pass) {
  Session session(testing::shared_test_device());
  Net net;
  net.materialise(session);
  Graph graph(session, "late");
  const auto building = graph.as_default();
  const Value x = graph.placeholder(f32({5, 3}), "x"), labels = graph.placeholder(i64({5}), "labels");
  const Value loss = graph.named(cross_entropy(net(x), labels), "loss");
  const auto optimizer = optim::make("adam", optim::all_in_one(net.parameters()));
  optimizer->set_rate(0.05);
  graph.minimize(loss, *optimizer, "train");
  Session another(testing::shared_test_device());
  Trained early(another, 5);
  EXPECT_EQ(train(graph, 3, 5), train(early.graph, 3, 5));
}

TEST(DeviceGraphTraining, the_rate_is_set_between_runs) {
  Session session(testing::shared_test_device());
  Trained trained(session, 5, "sgd");
  Runner runner(trained.graph);
  const List before = read(trained.graph.value("last.bias"));
  trained.graph.hyperparameters("train").rate = 0;
  runner.run(batch_of(trained.graph, 5), {trained.graph.operation("train")});
  EXPECT_EQ(read(trained.graph.value("last.bias")), before);
  trained.optimizer->set_rate(0.5);
  runner.run(batch_of(trained.graph, 5), {trained.graph.operation("train")});
  EXPECT_NE(read(trained.graph.value("last.bias")), before);
  EXPECT_EQ(runner.plans().size(), 1u);
  EXPECT_EQ(message_of<UsageError>([&] { trained.graph.hyperparameters("other"); }), "graph: no operation 'other' of minimize in 'trained'; accepted: train");
}

TEST(DeviceGraphTraining, an_open_batch_trains_as_the_one_that_is_known) {
  const testing::TemporaryFolder folder;
  Session open_session(testing::shared_test_device()), session(testing::shared_test_device());
  Trained open(open_session, kOpen);
  EXPECT_EQ(to_string(open.graph.value("logits").spec()), "float32 [?, 4]");
  Trained known(session, 6);
  EXPECT_EQ(train(open.graph, 3, 6), train(known.graph, 3, 6));
  EXPECT_EQ(contents(open.graph), contents(known.graph));
  Runner runner(open.graph, parse_passes("all"), 2);
  const auto logits = [&](std::int64_t batch) { return runner.run({batch_of(open.graph, batch)[0]}, {open.graph.value("logits")})[0].shape(); };
  for (const std::int64_t batch : {4, 7, 4}) EXPECT_EQ(logits(batch), (Shape{batch, 4}));
  EXPECT_EQ(runner.plans().size(), 2u);
  logits(9);
  EXPECT_EQ(runner.plans().size(), 2u) << "the plan for 7 was used longest ago";
  const std::string forgotten = "extent 7";
  for (const auto& [key, plan] : runner.plans()) EXPECT_EQ(key.find(forgotten), std::string::npos) << key;

  open.graph.save(folder.path() / "open.json");
  Session other(testing::shared_test_device());
  const auto loaded = Graph::load(other, folder.path() / "open.json");
  EXPECT_EQ(train(*loaded, 2, 5), train(open.graph, 2, 5));
}

/// Two networks whose losses both go through the second, as in a GAN.
struct Adversaries {
  Session session{testing::shared_test_device()};
  nn::Linear made{3, 2}, judged{2, 2};
  std::unique_ptr<optim::Optimizer> maker, judge;
  Value noise, real, ones, zeros;

  Adversaries() {
    nn::Linear* layers[] = {&made, &judged};
    std::unique_ptr<optim::Optimizer>* optimizers[] = {&maker, &judge};
    for (int i = 0; i < 2; ++i) {
      const std::string name = i == 0 ? "maker" : "judge";
      const NameScope scope(session, name);
      layers[i]->materialise(session);
      std::vector<NamedValue> parameters = layers[i]->parameters().trainable();
      for (NamedValue& p : parameters) p.name = name + "." + p.name;
      *optimizers[i] = optim::make(i == 0 ? "adam" : "nesterov", {{parameters}});
      (*optimizers[i])->set_rate(0.0625);
    }
    noise = session.tensor(f32({5, 3}), ramp(15)), real = session.tensor(f32({5, 2}), ramp(10, 0.25));
    ones = session.tensor(i64({5}), List(5, 1)), zeros = session.tensor(i64({5}), List(5, 0));
  }
  /// The judge's, then the maker's.
  std::pair<Value, Value> losses(const Value& x, const Value& y) {
    const Value fake = tanh(made(x));
    return {cross_entropy(judged(y), ones) + cross_entropy(judged(fake), zeros), cross_entropy(judged(fake), ones)};
  }
  void build(Graph& graph) {
    const auto building = graph.as_default();
    const auto [of_judge, of_maker] = losses(graph.placeholder(f32({5, 3}), "noise"), graph.placeholder(f32({5, 2}), "real"));
    graph.minimize(graph.named(of_judge, "of_judge"), *judge, "judge");
    graph.minimize(graph.named(of_maker, "of_maker"), *maker, "maker");
  }
  void step(Graph& graph, Runner& runner, const std::vector<std::string>& operations) {
    std::vector<Fetch> fetches;
    for (const std::string& o : operations) fetches.emplace_back(graph.operation(o));
    runner.run(
        {{graph.value("noise"), graph.session().tensor(f32({5, 3}), ramp(15))}, {graph.value("real"), graph.session().tensor(f32({5, 2}), ramp(10, 0.25))}},
        fetches);
  }
  /// The same computed at once.
  void step(const std::vector<std::string>& operations) {
    const auto [of_judge, of_maker] = losses(noise, real);
    const Values by_judge = gradient({of_judge}, values_of(judge->parameters()), {}, Tape::retain);
    const Values by_maker = gradient({of_maker}, values_of(maker->parameters()), {}, Tape::retain);
    for (const std::string& o : operations) (o == "judge" ? *judge : *maker).step(o == "judge" ? by_judge : by_maker, 0.0625);
  }
  std::map<std::string, List> weights() const {
    std::map<std::string, List> out;
    for (const auto* optimizer : {maker.get(), judge.get()})
      for (const auto& [name, value] : optimizer->parameters()) out[name] = read(value);
    return out;
  }
};

TEST(DeviceGraphTraining, two_losses_through_one_network_train_alone_and_at_once) {
  for (const std::vector<std::string>& operations : {std::vector<std::string>{"judge"}, {"maker"}, {"judge", "maker"}, {"maker", "judge"}}) {
    Adversaries built, at_once;
    Graph graph(built.session, "adversaries");
    built.build(graph);
    Runner runner(graph);
    for (int i = 0; i < 3; ++i) {
      built.step(graph, runner, operations);
      at_once.step(operations);
      EXPECT_EQ(built.weights(), at_once.weights()) << operations.size() << " from " << operations[0] << ", step " << i;
    }
  }
}

TEST(DeviceGraphTraining, two_losses_through_one_network_go_on_from_a_file) {
  const testing::TemporaryFolder folder;
  Adversaries built;
  Graph graph(built.session, "adversaries");
  built.build(graph);
  Runner runner(graph);
  built.step(graph, runner, {"judge", "maker"});
  graph.save(folder.path() / "a.json");
  Session other(testing::shared_test_device());
  const auto loaded = Graph::load(other, folder.path() / "a.json");
  loaded->save(folder.path() / "b.json");
  EXPECT_EQ(testing::read_text(folder.path() / "a.json"), testing::read_text(folder.path() / "b.json"));
  Runner loaded_runner(*loaded);
  built.step(graph, runner, {"judge", "maker"});
  built.step(*loaded, loaded_runner, {"judge", "maker"});
  EXPECT_EQ(contents(*loaded), contents(graph));
}

TEST(DeviceGraphTraining, one_loss_is_minimised_by_two_optimizers) {
  Session session(testing::shared_test_device()), at_once(testing::shared_test_device());
  struct Both {
    nn::Linear layer{3, 4};
    std::unique_ptr<optim::Optimizer> adam, sgd;
    explicit Both(Session& s) {
      layer.materialise(s);
      adam = optim::make("adam", optim::all_in_one(layer.parameters())), sgd = optim::make("sgd", optim::all_in_one(layer.parameters()));
      adam->set_rate(0.0625), sgd->set_rate(0.125);
    }
    /// It reads the weight twice, so that its gradient reads it while it adds up.
    Value loss(const Value& x) { return sum(square(layer(x))) + sum(square(layer.weight().tensor())); }
    List weight() { return read(layer.weight().tensor()); }
  } built(session), wanted(at_once);
  Graph graph(session, "two");
  Value slope;
  {
    const auto building = graph.as_default();
    const Value loss = built.loss(graph.placeholder(f32({5, 3}), "x"));
    graph.minimize(loss, *built.adam, "warm");
    graph.minimize(loss, *built.sgd, "main");
    slope = graph.gradients(loss, {built.layer.weight().tensor()})[0];
  }
  Runner runner(graph);
  const auto fed = [](Session& s) { return s.tensor(f32({5, 3}), ramp(15)); };
  const auto run = [&](const std::vector<std::string>& operations) {
    std::vector<Fetch> fetches{slope};
    for (const std::string& o : operations) fetches.emplace_back(graph.operation(o));
    return read(runner.run({{graph.value("x"), fed(session)}}, fetches)[0]);
  };
  const auto gradients = [&] { return gradient({wanted.loss(fed(at_once))}, values_of(wanted.adam->parameters())); };
  for (const std::vector<std::string>& operations : {std::vector<std::string>{"warm"}, {"main"}, {"warm", "main"}, {"main"}}) {
    const Values g = gradients();
    EXPECT_EQ(run(operations), read(g[0])) << "the gradient of the loss before the updates";
    for (const std::string& o : operations) {
      if (o == "warm")
        wanted.adam->step(list(copy(g[0]), copy(g[1])), 0.0625);
      else
        wanted.sgd->step(list(copy(g[0]), copy(g[1])), 0.125);
    }
    EXPECT_EQ(built.weight(), wanted.weight()) << operations.size() << " from " << operations[0];
  }
}

TEST(DeviceGraphTraining, two_losses_of_one_optimizer_need_their_own_placeholders_only) {
  Session session(testing::shared_test_device());
  nn::Linear layer(3, 2);
  layer.materialise(session);
  const auto sgd = optim::make("sgd", optim::all_in_one(layer.parameters()));
  Graph graph(session, "alternating");
  const auto building = graph.as_default();
  for (const std::string name : {"a", "b"}) graph.minimize(sum(square(layer(graph.placeholder(f32({5, 3}), name)))), *sgd, "by " + name);
  Runner runner(graph);
  const List before = read(sgd->parameters()[0].value);
  runner.run({{graph.value("b"), session.tensor(f32({5, 3}), ramp(15))}}, {graph.operation("by b")});
  EXPECT_NE(read(sgd->parameters()[0].value), before);
}

TEST(GraphTraining, gradients_after_an_assignment_are_of_what_the_loss_read) {
  const auto session = Session::reference();
  Graph graph(*session, "assigned");
  const auto building = graph.as_default();
  const Value w = graph.variable(session->tensor(f32({1}), List{3}), "w");
  const Value loss = graph.named(sum(w * w), "loss");
  const Operation half = graph.assign(w.detached(), w.detached() * 0.5, "half");
  const Value slope = graph.gradients(loss, {w})[0];
  const Value slope_after = graph.gradients(sum(w * w), {w})[0];
  {
    const auto after = graph.control_dependencies({half});
    EXPECT_NE(message_of<UsageError>([&] { graph.gradients(loss, {w}); }).find("was changed in place after it was saved"), std::string::npos);
  }
  Runner runner(graph);
  EXPECT_EQ(read(runner.run({}, {slope})[0]), List{6});
  const Values both = runner.run({}, {slope, half, slope_after, loss});
  EXPECT_EQ(read(both[0]), List{6});
  EXPECT_EQ(read(both[2]), List{3});
  EXPECT_EQ(read(both[3]), List{9});
  EXPECT_EQ(read(w), List{1.5});
}

TEST(GraphTraining, a_gradient_of_values_before_and_after_an_update_runs_without_it_only) {
  const auto session = Session::reference();
  Graph graph(*session, "mixed");
  const auto building = graph.as_default();
  const Value w = graph.variable(session->tensor(f32({1}), List{3}), "w");
  const Value before = w * w;
  const Operation half = graph.assign(w.detached(), w.detached() * 0.5, "half");
  const Value after = w.detached() * 1.0;
  const Value slope = graph.gradients(sum(before * after), {w})[0];
  Runner runner(graph);
  EXPECT_EQ(read(runner.run({}, {slope})[0]), List{18});
  EXPECT_NE(message_of<UsageError>([&] { runner.run({}, {slope, half}); }).find("a gradient is of values before it and of values after it"), std::string::npos);
}

TEST(DeviceGraphTraining, a_group_that_the_optimizer_is_given_later_stays_as_it_is) {
  const testing::TemporaryFolder folder;
  Session session(testing::shared_test_device()), other(testing::shared_test_device());
  Trained trained(session, 5), alone(other, 5);
  const Value later = leaf(session.tensor(f32({2}), List{1, 2}));
  train(trained.graph, 1, 5), train(alone.graph, 1, 5);
  trained.optimizer->add_group({{{"later", later}}, 0.5});
  EXPECT_EQ(train(trained.graph, 2, 5), train(alone.graph, 2, 5));
  EXPECT_EQ(contents(trained.graph), contents(alone.graph));
  EXPECT_EQ(read(later), (List{1, 2}));
  EXPECT_EQ(trained.optimizer->parameter_steps(), (std::vector<std::int64_t>{3, 3, 3, 3, 3, 3, 0}));
  trained.graph.save_variables(folder.path() / "v.safetensors");
  trained.graph.restore_variables(folder.path() / "v.safetensors");
  trained.graph.save(folder.path() / "g.json");
  const auto loaded = Graph::load(other, folder.path() / "g.json");
  loaded->restore_variables(folder.path() / "v.safetensors");
  EXPECT_EQ(train(*loaded, 2, 5), train(trained.graph, 2, 5));
}

TEST(DeviceGraphTraining, a_loss_that_reaches_no_parameter_is_refused) {
  Session session(testing::shared_test_device());
  Net net;
  net.materialise(session);
  const auto adam = optim::make("adam", optim::all_in_one(net.parameters()));
  Graph graph(session, "apart");
  const auto building = graph.as_default();
  const Value x = graph.placeholder(f32({5, 3}), "x");
  EXPECT_EQ(message_of<UsageError>([&] { graph.minimize(sum(x), *adam, "train"); }),
            "minimize: the loss float32 [] of 'train' reaches no parameter of the optimizer that is not frozen, such as first.weight; accepted: a loss "
            "computed from one");
  for (int i = 0; i < 8; ++i) {  // in the memory of what the refused one had added
    const Value v = graph.variable(full(session, f32({1}), 1), std::to_string(i), Trainable::no);
    graph.assign(v, v * 2.0, "assign" + std::to_string(i));
  }
  const Value loss = sum(net(x));
  net.freeze();
  EXPECT_THROW(graph.minimize(loss, *adam, "train"), UsageError);
  net.unfreeze();
  graph.minimize(loss, *adam, "train");
}

TEST(GraphTraining, constants_have_names) {
  const testing::TemporaryFolder folder;
  const auto session = Session::reference(), other = Session::reference();
  Graph graph(*session);
  const std::vector<float> floats{1, 2, 3};
  const Value a = graph.constant(f32({3}), floats), b = graph.constant(f32({1}), List{4}), c = graph.constant(f32({1}), List{5}, "five");
  EXPECT_EQ(graph.value("constant").storage(), a.storage());
  EXPECT_EQ(graph.value("constant_1").storage(), b.storage());
  EXPECT_EQ(graph.value("five").storage(), c.storage());
  graph.save(folder.path() / "a.json");
  const auto loaded = Graph::load(*other, folder.path() / "a.json");
  EXPECT_EQ(read(loaded->value("five")), List{5});
  EXPECT_EQ(read(loaded->value("constant")), (List{1, 2, 3}));
}

TEST(GraphTraining, hostile_names_are_refused) {
  const testing::TemporaryFolder folder;
  const auto session = Session::reference();
  Graph graph(*session, "saved");
  {
    const auto building = graph.as_default();
    const Value w = graph.variable(session->tensor(f32({2}), List{1, 2}), "w");
    graph.assign(w, w * 2.0, "double");
  }
  const auto path = folder.path() / "a.json";
  graph.save(path);
  const std::string text = testing::read_text(path);
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    EXPECT_NE(changed.find(from), std::string::npos) << from;
    changed.replace(changed.find(from), from.size(), to);
    testing::sign(changed);
    testing::write_text(path, changed);
    return message_of<DataError>([&] { Graph::load(*session, path); });
  };
  EXPECT_NE(refused("\"double\":[", "\"double\":[99,").find("runs instruction 99"), std::string::npos);
  EXPECT_NE(refused("\"parameters\":[\"w\"]", "\"parameters\":[\"v\"]").find("the variable 'v' has no contents"), std::string::npos);
  EXPECT_NE(refused("\"runs\":{\"runs\":{\"integer\":0}}", "\"runs\":{\"ran\":{\"integer\":0}}").find("the setting 'runs' is missing"), std::string::npos);
  EXPECT_NE(refused("\"runs\":{\"runs\":{\"integer\":0}}", "\"training.double\":{\"rate\":{\"real\":1}}").find("double takes no hyperparameters"),
            std::string::npos);
}

}  // namespace
}  // namespace gemel::graph
