#include "frontends/models/pictures/picture_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "engine/base/error.h"
#include "engine/base/text/edit_distance.h"
#include "frontends/models/blocks.h"
#include "frontends/models/pictures/architectures.h"
#include "frontends/nn/layers/layers.h"

namespace gemel::models {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<nn::Module> (*make)(const Options&);
  std::array<std::int64_t, 2> channels;
  std::int64_t size;   // height and width of the pictures that it was made for
  std::int64_t small;  // of small ones that it still trains on
};

constexpr std::array<Entry, 11> kModels{{{"lenet", lenet, {1, 3}, 32, 32},
                                         {"perceptron", perceptron, {1, 3}, 16, 16},
                                         {"alexnet", alexnet, {3, 3}, 224, 63},
                                         {"vgg16", vgg16, {3, 3}, 224, 32},
                                         {"vgg19", vgg19, {3, 3}, 224, 32},
                                         {"resnet18", resnet18, {3, 3}, 224, 32},
                                         {"resnet50", resnet50, {3, 3}, 224, 32},
                                         {"resnet152", resnet152, {3, 3}, 224, 32},
                                         {"mobilenet_v2", mobilenet_v2, {3, 3}, 224, 32},
                                         {"efficientnet_b4", efficientnet_b4, {3, 3}, 224, 32},
                                         {"inception_v3", inception_v3, {3, 3}, 299, 299}}};

[[noreturn]] void refuse_name(std::string_view name) {
  const auto known = names();
  const auto nearest = *std::ranges::min_element(known, {}, [name](std::string_view n) { return edit_distance(name, n); });
  throw UsageError(fmt::format("model: {} is unknown; did you mean {}? accepted: {}", name, nearest, fmt::join(known, ", ")));
}

const Entry& entry_of(std::string_view name) {
  const auto* entry = std::ranges::find(kModels, name, &Entry::name);
  if (entry == kModels.end()) refuse_name(name);
  return *entry;
}

}  // namespace

std::vector<std::string_view> names() {
  std::vector<std::string_view> out;
  for (const Entry& e : kModels) out.push_back(e.name);
  return out;
}

bool has_blocks(std::string_view name) {
  bool found = false;
  entry_of(name).make({})->visit_all<RepeatedBlock>([&](const RepeatedBlock&) { found = true; });
  return found;
}

std::vector<std::string_view> names_with_blocks() {
  std::vector<std::string_view> out = names();
  std::erase_if(out, [](std::string_view name) { return !has_blocks(name); });
  return out;
}

void check_recompute(std::string_view name, RecomputedParts recompute) {
  if (recompute == RecomputedParts::none || has_blocks(name)) return;
  throw UsageError(fmt::format("{}: it has no repeated blocks to compute again; accepted: recompute none, or another model: {}", name,
                               fmt::join(names_with_blocks(), ", ")));
}

void recompute_blocks(nn::Module& model) {
  model.visit_all<RepeatedBlock>([](RepeatedBlock& block) { block.set_recompute(nn::Recompute::yes); });
}

Shape usual_input(std::string_view name) {
  const Entry& entry = entry_of(name);
  return {entry.channels[1], entry.size, entry.size};
}

Shape small_input(std::string_view name) {
  const Entry& entry = entry_of(name);
  return {entry.channels[1], entry.small, entry.small};
}

std::unique_ptr<nn::Module> make(std::string_view name, const Options& options) {
  const Entry& entry = entry_of(name);
  if (options.classes < 1) throw UsageError(fmt::format("{}: {} classes given; accepted: 1 or more", name, options.classes));
  if (std::ranges::find(entry.channels, options.channels) == entry.channels.end())
    throw UsageError(fmt::format("{}: {} input channels given; accepted: {}", name, options.channels, entry.channels[0] == entry.channels[1] ? "3" : "1 or 3"));
  check_recompute(name, options.recompute);
  auto model = entry.make(options);
  if (options.recompute == RecomputedParts::blocks) recompute_blocks(*model);
  return model;
}

std::unique_ptr<nn::Module> make(std::string_view name, const Options& options, Session& session) {
  auto model = make(name, options);
  model->materialise(session);
  return model;
}

void start_convolutions_by_fan_out(nn::Module& model) {
  model.visit_all<nn::Conv2d>([](nn::Conv2d& conv) {
    nn::Parameter& w = conv.weight();
    w.initialise = nn::normal(nn::relu_deviation(nn::fan_out(w.spec.shape, w.layout)));
    if (conv.bias()) conv.bias()->initialise = nn::constant(0);
  });
}

}  // namespace gemel::models
