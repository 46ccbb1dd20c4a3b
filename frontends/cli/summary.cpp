#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/autograd.h"
#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "engine/plan.h"
#include "frontends/cli/arguments.h"
#include "frontends/cli/command.h"
#include "frontends/cli/model_options.h"
#include "frontends/models/models.h"
#include "frontends/nn/loss.h"
#include "frontends/nn/summary.h"

namespace gemel::cli {
namespace {

/// Parameters and buffers of a model, as places that symbolic tensors can be put in.
struct Places {
  Specs specs;
  std::vector<nn::Parameter*> parameters;
  std::vector<nn::Buffer*> buffers;
};
Places places_of(nn::Module& model) {
  Places out;
  model.visit([&](const std::string&, nn::Module& m) {
    for (const auto& p : m.own_parameters()) out.parameters.push_back(p.get());
    for (const auto& b : m.own_buffers()) out.buffers.push_back(b.get());
  });
  for (const auto* p : out.parameters) out.specs.push_back(p->spec);
  for (const auto* b : out.buffers) out.specs.push_back(b->spec);
  return out;
}

/// Bytes of the arena of one training step (forward, cross-entropy, backward, update), planned without any memory.
std::int64_t planned_arena(nn::Module& model, const Spec& input) {
  const auto session = Session::reference();
  const Places places = places_of(model);
  Specs specs{input, {Shape{input.shape[0]}, DType::int64}, i64({4}), f32({1})};
  const std::size_t first = specs.size();
  specs.insert(specs.end(), places.specs.begin(), places.specs.end());
  model.train();
  const Program program = capture(*session, specs, [&](const Values& in) -> Values {
    Values wanting;
    for (std::size_t i = 0; i < places.parameters.size(); ++i) {
      places.parameters[i]->bind(in[first + i]);
      wanting.push_back(places.parameters[i]->value);
    }
    for (std::size_t i = 0; i < places.buffers.size(); ++i) places.buffers[i]->value = in[first + places.parameters.size() + i];
    session->random().begin(in[2]);
    const Value logits = model(in[0]);
    const Value loss = nn::classification_loss(model, logits, in[1]);
    const Values gradients = gradient({loss}, wanting);
    for (std::size_t i = 0; i < wanting.size(); ++i)
      if (gradients[i]) sgd_update(wanting[i], gradients[i], in[3], 0);
    return {loss.detached()};
  });
  constexpr std::int64_t kAlignment = 128, kNoLimit = std::int64_t{1} << 50;
  return plan_memory(program, kAlignment, kNoLimit).arena_bytes;
}

struct Totals {
  std::int64_t parameters = 0, parameter_bytes = 0, flops = 0, activation_bytes = 0;
  std::optional<std::int64_t> arena_bytes;
  std::string no_training;  // why there is no arena: batch normalisation, for one, takes more than one value a channel
};

Totals totals_of(nn::Module& model, const std::vector<nn::LayerSummary>& layers, const Spec& input) {
  Totals t;
  t.parameters = model.parameter_elements();  // also of layers that run in training only
  for (const auto& l : layers) {
    t.flops += l.flops;
    t.activation_bytes += l.activation_bytes;
  }
  for (const Spec& s : places_of(model).specs) t.parameter_bytes += s.bytes();
  try {
    t.arena_bytes = planned_arena(model, input);
  } catch (const ShapeError& e) {
    t.no_training = e.what();
  }
  return t;
}

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

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
      t.arena_bytes ? fmt::format("{:.2f} MiB: parameters and statistics, and an arena of {:.2f} MiB (without optimizer state)",
                                  mebibytes(t.parameter_bytes + *t.arena_bytes), mebibytes(*t.arena_bytes))
                    : fmt::format("nothing, it cannot train on this input: {}", t.no_training);
  fmt::print("\nparameters           {} ({:.2f} MiB)\nforward              {:.3f} GFLOPs\nactivations          {:.2f} MiB forward\nplanned for training {}\n",
             t.parameters, mebibytes(t.parameter_bytes), 1e-9 * static_cast<double>(t.flops), mebibytes(t.activation_bytes), training);
}

nlohmann::ordered_json json_of(const std::vector<nn::LayerSummary>& layers, const Totals& t) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& l : layers)
    rows.push_back({{"layer", l.path}, {"kind", l.description}, {"output", std::vector<std::int64_t>(l.output.shape.begin(), l.output.shape.end())},
                    {"parameters", l.parameters}, {"flops", l.flops}, {"activation_bytes", l.activation_bytes}});
  nlohmann::ordered_json out{{"layers", rows}, {"parameters", t.parameters}, {"parameter_bytes", t.parameter_bytes}, {"flops", t.flops},
                             {"activation_bytes", t.activation_bytes}};
  if (t.arena_bytes)
    out.update({{"arena_bytes", *t.arena_bytes}, {"training_bytes", t.parameter_bytes + *t.arena_bytes}});
  else
    out.update({{"arena_bytes", nullptr}, {"training_bytes", nullptr}, {"no_training", t.no_training}});
  return out;
}

}  // namespace

int summary(const Arguments& arguments) {
  po::options_description options("options", 110);
  options.add_options()
      ("model", po::value<std::string>()->required(), model_help().c_str())
      ("input", po::value<std::string>()->default_value(""), "CxHxW of a picture (default 3x224x224; lenet 3x32x32, inception_v3 3x299x299)")
      ("batch-size", po::value<std::int64_t>()->default_value(1), "pictures at a time")
      ("classes", po::value<std::int64_t>()->default_value(1000), "size of the last layer")
      ("json", po::bool_switch(), "machine-readable output");
  const auto v = parse("summary", "A table of a model's layers in evaluation, and its memory in training, found without computing anything.", options, arguments);
  const std::string name = model_name(v);
  const auto batch_size = whole_number(v, "batch-size", 1, 1e6), classes = class_count(v, 1);
  const auto text = v["input"].as<std::string>();
  const Shape input = text.empty() ? models::usual_input(name) : Shape(parse_extents("--input", text, 3));
  const Spec spec = f32({batch_size, input[1], input[2], input[0]});
  const auto model = models::make(name, {.classes = classes, .channels = input[0]});
  model->eval();
  const auto layers = nn::summarise(*model, spec);
  const Totals totals = totals_of(*model, layers, spec);
  if (v["json"].as<bool>())
    fmt::print("{}\n", json_of(layers, totals).dump(2));
  else
    print(layers, totals);
  return 0;
}

}  // namespace gemel::cli
