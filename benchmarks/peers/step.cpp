// One training step's loss and gradients for given weights and data, for comparison with another framework.
//   gemel_step MODEL CLASSES FOLDER...
// Each folder holds weights.safetensors, images.npy (float32 [N, C, H, W]) and labels.npy (int64 [N]); the program adds
// loss.txt and gradients.safetensors, under torchvision's names and in its layouts, and activations.safetensors: the
// outputs of the ReLUs and ReLU6s in their order ("0", "1", ...; images as [N, H, W, C]), which tell the side of every kink.
// Batch normalisation is in training mode, dropout and stochastic depth are off. The device is chosen by GEMEL_PLATFORM and GEMEL_DEVICE.
#include "frontends/train/step.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "datasets/formats/npy.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/files/safetensors.h"
#include "engine/ops/ops.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/state/state_dict.h"
#include "opencl/device/device.h"

namespace {

using namespace gemel;

Value load(Session& session, const std::filesystem::path& path, DType dtype) {
  const datasets::NpyFile file(path);
  return session.tensor({file.shape(), dtype}, file.data());
}

void save_numbered(const std::filesystem::path& path, const Values& values) {
  std::vector<std::vector<std::byte>> bytes;
  for (const Value& v : values) bytes.push_back(read_bytes(v));
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < values.size(); ++i) tensors.push_back({std::to_string(i), values[i].spec(), bytes[i]});
  write_safetensors(path, tensors);
}

void step(Session& session, const std::string& model_name, std::int64_t classes, const std::filesystem::path& folder) {
  const Value images = load(session, folder / "images.npy", DType::float32);
  const Value labels = load(session, folder / "labels.npy", DType::int64);
  auto model = models::make(model_name, {.classes = classes, .dropout = 0.0, .channels = images.shape()[1]});
  nn::load_weights(*model, session, folder / "weights.safetensors");
  model->train();
  model->visit([](const std::string& path, nn::Module& module) {
    if (path.ends_with("stochastic_depth")) module.eval();
  });
  Values activations;
  std::shared_ptr<void> watched = session.interpreter().observe([&](const OpDef& op, std::span<const Value>, std::span<const Value> outputs) {
    if (&op == &relu_def() || &op == &relu6_def()) activations.push_back(outputs[0]);
  });
  const auto parameters = model->parameters();
  const auto samples = static_cast<double>(labels.elements());
  const Values in{transpose(images, {0, 2, 3, 1}), labels, session.tensor(i64({4}), std::vector<double>(4)), full(session, f32({}), 1 / samples)};
  train::ClassificationTask task(*model, classes);
  const auto [outcome, gradients] = train::differentiate(session, task, in, values_of(parameters.parameters()));
  watched.reset();
  save_numbered(folder / "activations.safetensors", activations);
  write_file_atomically(folder / "loss.txt", [&](FileWriter& out) { out.write(fmt::format("{:.9g}\n", read(outcome.loss)[0] / samples)); });
  // The gradients go out through the module's own parameters, so that names and layouts are those of its state.
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Value& parameter = parameters.parameters()[i].value;
    assign(parameter, gradients[i] ? gradients[i] : full(session, parameter.spec(), 0));
  }
  nn::save_weights(*model, folder / "gradients.safetensors");
}

}  // namespace

int main(int count, char** values) {
  if (count < 4) {
    fmt::print(stderr, "usage: gemel_step MODEL CLASSES FOLDER...\n");
    return 2;
  }
  try {
    const auto device = opencl::Device::open({});
    Session session(device);
    for (int i = 3; i < count; ++i) step(session, values[1], std::strtoll(values[2], nullptr, 10), values[i]);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gemel_step: {}\n", e.what());
    return 1;
  }
}
