// gemel summary: layers, shapes, parameters, FLOPs and memory of a model, computed from shapes alone.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/error.h"
#include "frontends/cli/arguments.h"
#include "frontends/cli/command.h"
#include "frontends/cli/model_options.h"
#include "frontends/cli/planned_step.h"
#include "frontends/cli/units.h"
#include "frontends/models/models.h"
#include "frontends/nn/summary.h"

namespace gemel::cli {
namespace {

struct Totals {
  std::int64_t parameters = 0, parameter_bytes = 0, gradient_bytes = 0, flops = 0, activation_bytes = 0;
  std::optional<std::int64_t> arena_bytes;
  std::string no_training;  // why there is no arena: batch normalisation, for one, takes more than one value a channel
};

Totals totals_of(nn::Module& model, const std::vector<nn::LayerSummary>& layers, const Spec& input) {
  Totals t;
  t.parameters = model.parameter_elements();  // also of layers that run in training only
  t.parameter_bytes = state_bytes(model);
  t.gradient_bytes = slab_bytes(model);
  for (const auto& l : layers) {
    t.flops += l.flops;
    t.activation_bytes += l.activation_bytes;
  }
  try {
    t.arena_bytes = plan_step(model, input, Work::train).arena_bytes;
  } catch (const ShapeError& e) {
    t.no_training = e.what();
  }
  return t;
}

void print(const std::vector<nn::LayerSummary>& layers, const Totals& t) {
  std::size_t path = 5, about = 5;
  for (const auto& l : layers) {
    path = std::max(path, l.path.size());
    about = std::max(about, l.description.size());
  }
  fmt::print("{:<{}}  {:<{}}  {:<20} {:>12} {:>10} {:>10}\n", "layer", path, "kind", about, "output [N, H, W, C]", "parameters", "MFLOPs", "MiB");
  for (const auto& l : layers)
    fmt::print("{:<{}}  {:<{}}  {:<20} {:>12} {:>10.2f} {:>10.2f}\n", l.path.empty() ? "." : l.path, path, l.description, about,
               to_string(l.output.shape), l.parameters, 1e-6 * static_cast<double>(l.flops), mebibytes(l.activation_bytes));
  const std::string training =
      t.arena_bytes ? fmt::format("{:.2f} MiB: parameters and statistics, gradients, and an arena of {:.2f} MiB (without optimizer state)",
                                  mebibytes(t.parameter_bytes + t.gradient_bytes + *t.arena_bytes), mebibytes(*t.arena_bytes))
                    : fmt::format("nothing, it cannot train on this input: {}", t.no_training);
  fmt::print("\nparameters           {} ({:.2f} MiB)\nforward              {:.3f} GFLOPs\nactivations          {:.2f} MiB forward\nplanned for training {}\n",
             t.parameters, mebibytes(t.parameter_bytes), 1e-9 * static_cast<double>(t.flops), mebibytes(t.activation_bytes), training);
}

nlohmann::ordered_json json_of(const std::vector<nn::LayerSummary>& layers, const Totals& t) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& l : layers)
    rows.push_back({{"layer", l.path}, {"kind", l.description}, {"output", std::vector<std::int64_t>(l.output.shape.begin(), l.output.shape.end())},
                    {"parameters", l.parameters}, {"flops", l.flops}, {"activation_bytes", l.activation_bytes}});
  nlohmann::ordered_json out{{"layers", rows}, {"parameters", t.parameters}, {"parameter_bytes", t.parameter_bytes}, {"gradient_bytes", t.gradient_bytes}, {"flops", t.flops},
                             {"activation_bytes", t.activation_bytes}};
  if (t.arena_bytes)
    out.update({{"arena_bytes", *t.arena_bytes}, {"training_bytes", t.parameter_bytes + t.gradient_bytes + *t.arena_bytes}});
  else
    out.update({{"arena_bytes", nullptr}, {"training_bytes", nullptr}, {"no_training", t.no_training}});
  return out;
}

}  // namespace

int summary(const Arguments& arguments) {
  po::options_description options("options", 110);
  options.add_options()
      ("model", po::value<std::string>()->required(), model_help().c_str())
      ("input", po::value<std::string>()->default_value(""), "CxHxW of a picture (default 3x224x224; lenet 3x32x32, perceptron 3x16x16, inception_v3 3x299x299)")
      ("batch-size", po::value<std::int64_t>()->default_value(1), "pictures at a time")
      ("classes", po::value<std::int64_t>()->default_value(1000), "size of the last layer")
      ("json", po::bool_switch(), "machine-readable output");
  add_recompute_option(options);
  const auto v = parse("summary", "A table of a model's layers in evaluation, and its memory in training, found without computing anything.",
                       options, arguments);
  const std::string name = model_name(v);
  const auto batch_size = whole_number(v, "batch-size", 1, 1e6), classes = class_count(v, 1);
  const Shape input = input_of(v, name);
  const Spec spec = f32({batch_size, input[1], input[2], input[0]});
  const auto model = models::make(name, {.classes = classes, .channels = input[0], .recompute = recompute_option(v, name)});
  model->eval();
  const auto layers = nn::summarise(*model, {spec});
  const Totals totals = totals_of(*model, layers, spec);
  if (v["json"].as<bool>())
    fmt::print("{}\n", json_of(layers, totals).dump(2));
  else
    print(layers, totals);
  return 0;
}

}  // namespace gemel::cli
