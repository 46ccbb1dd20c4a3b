// A graph with an open batch and a training operation that version 0.1.0 saved (tests/data/saved_by_0_1_0) is read as it was meant.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "engine/files/safetensors.h"
#include "frontends/graph/runner.h"
#include "tests/support/device/test_device.h"
#include "tests/support/temporary_folder.h"

namespace gemel::graph {
namespace {

using testing::Where;

const std::filesystem::path kSaved = std::filesystem::path(GEMEL_SOURCE_DIR) / "tests/data/saved_by_0_1_0";
constexpr int kPoints = 40;

/// As make.py made them.
std::vector<Feed> points(const Graph& graph, int count) {
  std::vector<double> places, labels;
  for (int i = 0; i < count; ++i) {
    const int x = i * 37 % 11 - 5, y = i * 53 % 13 - 6;
    places.insert(places.end(), {double(x), double(y)});
    labels.push_back(x * y > 0);
  }
  return {{graph.value("points"), graph.session().tensor(f32({count, 2}), places)}, {graph.value("labels"), graph.session().tensor(i64({count}), labels)}};
}

std::map<std::string, std::vector<double>> variables_of(const Graph& graph) {
  std::map<std::string, std::vector<double>> out;
  for (const auto& list : {graph.variables().parameters(), graph.variables().buffers()})
    for (const auto& [name, value] : list) out[name] = read(value);
  return out;
}

double loss_of(Graph& graph) { return read(Runner(graph).run(points(graph, kPoints), {graph.value("loss")})[0])[0]; }

class OldGraph : public ::testing::TestWithParam<Where> {
 protected:
  std::unique_ptr<Session> session_ = testing::session_on(GetParam());
  std::unique_ptr<Graph> load() { return Graph::load(*session_, kSaved / "graph.json"); }
};

TEST_P(OldGraph, has_its_names_its_settings_and_its_variables) {
  const auto graph = load();
  EXPECT_EQ(graph->name(), "classifier");
  EXPECT_EQ(graph->hyperparameters("train").steps, 9);
  EXPECT_EQ(graph->hyperparameters("train").rate, 0.01);
  const SafetensorsFile file(kSaved / "graph.safetensors");
  const auto variables = variables_of(*graph);
  for (const char* name : {"hidden.weight", "hidden.bias", "out.weight", "out.bias"}) {
    ASSERT_TRUE(variables.contains(name)) << name;
    EXPECT_EQ(variables.at(name), read(session_->tensor(file.find(name)->spec, file.find(name)->data))) << name;
  }
}

TEST_P(OldGraph, computes_the_loss_that_it_had) {
  std::istringstream printed(testing::read_text(kSaved / "graph.loss.txt"));
  std::string word;
  double loss = 0;
  printed >> word >> loss;
  ASSERT_GT(loss, 0);
  EXPECT_NEAR(loss_of(*load()), loss, 2e-6) << "six digits were printed";
}

TEST_P(OldGraph, trains_on_with_any_batch_and_the_same_each_time) {
  const auto one = load(), other = load();
  const double before = loss_of(*one);
  for (const auto& graph : {one.get(), other.get()}) {
    Runner runner(*graph);
    for (const int batch : {16, 7, 40}) runner.run(points(*graph, batch), {graph->operation("train")});
  }
  EXPECT_EQ(one->hyperparameters("train").steps, 12);
  EXPECT_LT(loss_of(*one), before);
  EXPECT_EQ(variables_of(*one), variables_of(*other));
  const testing::TemporaryFolder folder;
  one->save(folder.path() / "again.json");
  const auto again = Graph::load(*session_, folder.path() / "again.json");
  EXPECT_EQ(again->hyperparameters("train").steps, 12);
  EXPECT_NEAR(loss_of(*again), loss_of(*one), 1e-6) << "a file holds float32, and the reference computes in double";
}

INSTANTIATE_TEST_SUITE_P(, OldGraph, ::testing::Values(Where::reference, Where::device),
                         [](const auto& p) { return p.param == Where::reference ? "reference" : "device"; });

}  // namespace
}  // namespace gemel::graph
