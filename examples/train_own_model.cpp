// A classifier of one's own on data of one's own: trains, evaluates, checkpoints, logs, and goes on where it stopped.
//   train_own_model FILE FOLDER EPOCHS     each line of FILE: x y label (0 or 1); FOLDER gets checkpoints, run.jsonl, TensorBoard files
#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>

#include "engine/ops/ops.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/train/evaluation.h"
#include "frontends/train/trainer.h"
#include "opencl/device/device.h"

using namespace gemel;

struct Classifier : nn::Module {
  nn::Linear& hidden = add<nn::Linear>("hidden", 2, 32);
  nn::Linear& out = add<nn::Linear>("out", 32, 2);
  Value forward(Value x) override { return out(relu(hidden(std::move(x)))); }
};

/// Batches of 16 lines, in the file's order.
struct Points : datasets::BatchSource {
  explicit Points(const std::string& path) {
    std::ifstream file(path);
    for (float x = 0, y = 0, label = 0; file >> x >> y >> label; labels.push_back(std::int64_t(label))) points.insert(points.end(), {x, y});
  }
  std::int64_t samples() const override { return std::ssize(labels); }
  std::int64_t batches() const override { return (samples() + 15) / 16; }
  void start(std::int64_t, std::int64_t first_batch) override { batch = first_batch; }
  std::optional<datasets::Batch> next() override {
    if (batch == batches()) return std::nullopt;
    const std::int64_t first = 16 * batch, count = std::min<std::int64_t>(16, samples() - first);
    return datasets::Batch{.tensors = {datasets::host_tensor<float>("images", {count, 2}, {&points[2 * first], 2ul * count}),
                                       datasets::host_tensor<std::int64_t>("labels", {count}, {&labels[first], 1ul * count})},
                           .samples = count,
                           .index = batch++,
                           .first_position = first};
  }
  std::vector<float> points;
  std::vector<std::int64_t> labels;
  std::int64_t batch = 0;
};

int main(int count, char** arguments) {
  if (count != 4) return std::cerr << "usage: train_own_model FILE FOLDER EPOCHS\n", 2;
  Points points(arguments[1]);
  if (points.samples() == 0) return std::cerr << "train_own_model: " << arguments[1] << " is missing or has no samples; accepted: lines of x y label\n", 1;
  Session session(opencl::Device::open({}));
  Classifier model;
  model.materialise(session);
  train::ClassificationTask task(model, 2);
  train::pack_parameters(session, task, {f32({16, 2}), i64({16})});  // of a batch: gradients that are ready early lie together
  const auto adam = optim::make("adam", optim::all_in_one(model.parameters()));
  train::RunLog log(arguments[2]);
  train::Trainer trainer({session, task, *adam, points, nullptr, &log}, {.epochs = std::stoll(arguments[3]), .rate = 0.01, .checkpoint_dir = arguments[2]});
  trainer.resume(), trainer.run();
  train::Step evaluation(session, task, nullptr);
  const train::Sums sums = train::evaluate(evaluation, points);
  std::cout << "loss " << sums.mean_loss() << '\n';
  for (const auto& [name, value] : task.metrics(sums)) std::cout << name << ' ' << value << '\n';
}
