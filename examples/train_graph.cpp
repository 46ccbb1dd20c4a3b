// A classifier of one's own in a Graph: trains, evaluates, checkpoints, logs, and goes on where it stopped.
//   train_graph FILE FOLDER EPOCHS     each line of FILE: x y label (0 or 1); FOLDER gets graph.json, graph.safetensors, run.jsonl
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/graph/runner.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/train/record/run_log.h"
#include "opencl/device/device.h"

using namespace gemel;

/// Two layers, whose last batch may be smaller than the others.
std::unique_ptr<graph::Graph> classifier(Session& session) {
  auto made = std::make_unique<graph::Graph>(session, "classifier");
  const auto building = made->as_default();
  nn::Linear hidden(2, 32), out(32, 2);
  for (nn::Linear* layer : {&hidden, &out}) {
    const NameScope scope(session, layer == &hidden ? "hidden" : "out");
    layer->materialise(session), made->add(layer->parameters());
  }
  const Value points = made->placeholder(f32({graph::kOpen, 2}), "points"), labels = made->placeholder(i64({graph::kOpen}), "labels");
  const Value scores = out(relu(hidden(points))), loss = made->named(cross_entropy(scores, labels), "loss");
  made->named(mean(cast(equal(argmax(scores, 1), labels), DType::float32)), "accuracy");
  pack_in_backward_order({loss}, values_of(made->variables().trainable()));  // gradients that are ready early lie together
  optim::Adam adam({{made->variables().trainable()}}, {.rate = 0.01});
  made->minimize(loss, adam, "train");
  return made;
}

int main(int count, char** arguments) {
  if (count != 4) return std::cerr << "usage: train_graph FILE FOLDER EPOCHS\n", 2;
  const std::filesystem::path folder = arguments[2], checkpoint = folder / "graph.json", from = exists(checkpoint) ? checkpoint : "";
  std::vector<float> points;
  std::vector<std::int64_t> labels;
  std::ifstream file(arguments[1]);
  for (float x = 0, y = 0, label = 0; file >> x >> y >> label; labels.push_back(std::int64_t(label))) points.insert(points.end(), {x, y});
  const std::int64_t samples = std::ssize(labels), batches = (samples + 15) / 16;
  if (samples == 0) return std::cerr << "train_graph: " << arguments[1] << " is missing or has no samples; accepted: lines of x y label\n", 1;
  Session session(opencl::Device::open({}));
  train::RunLog log(folder.string());
  const auto graph = from.empty() ? classifier(session) : graph::Graph::load(session, from);
  log.begin(), log.start(session, graph->name(), graph->variables().parameter_elements(), from);
  graph::Runner runner(*graph);
  const auto feeds = [&](std::int64_t first, std::int64_t count) -> std::vector<graph::Feed> {
    return {{graph->value("points"), session.tensor(f32({count, 2}), std::span(&points[2 * first], 2ul * count))},
            {graph->value("labels"), session.tensor(i64({count}), std::as_bytes(std::span(&labels[first], 1ul * count)))}};
  };
  for (std::int64_t epoch = graph->hyperparameters("train").steps / batches; epoch < std::stoll(arguments[3]); ++epoch) {
    for (std::int64_t first = 0; first < samples; first += 16)
      runner.run(feeds(first, std::min<std::int64_t>(16, samples - first)), {graph->operation("train")});
    const Values found = runner.run(feeds(0, samples), {graph->value("loss"), graph->value("accuracy")});
    graph->save(checkpoint), log.event({{"event", "epoch"}, {"epoch", epoch + 1}, {"loss", read(found[0])[0]}, {"accuracy", read(found[1])[0]}});
  }
  log.end("ok");
  for (const char* name : {"loss", "accuracy"}) std::cout << name << ' ' << read(runner.run(feeds(0, samples), {graph->value(name)})[0])[0] << '\n';
}
