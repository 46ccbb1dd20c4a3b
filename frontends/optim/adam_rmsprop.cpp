// Adam, AdamW and RMSprop, and the list of optimizers by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/error.h"
#include "frontends/optim/optimizer.h"

namespace gemel::optim {

Adam::Adam(std::vector<Group> groups, const AdamOptions& options)
    : Optimizer(std::move(groups), {.rate = options.rate, .weight_decay = options.weight_decay, .betas = {options.update.beta1, options.update.beta2}},
                {"mean", "variance"}),
      options_(options) {}

void Adam::update(Update u, std::span<const Slab> slots) const { adam_update(std::move(u), slots[0].whole(), slots[1].whole(), options_.update); }

bool Adam::update_rows(RowUpdate u, std::span<const Value> slots) const {
  adam_rows_update(std::move(u), slots[0], slots[1], options_.update);
  return true;
}

Rmsprop::Rmsprop(std::vector<Group> groups, const RmspropOptions& options)
    : Optimizer(std::move(groups), {.rate = options.rate, .weight_decay = options.weight_decay},
                options.update.momentum != 0 ? std::vector<std::string>{"variance", "velocity"} : std::vector<std::string>{"variance"}),
      options_(options) {}

void Rmsprop::update(Update u, std::span<const Slab> slots) const {
  rmsprop_update(std::move(u), slots[0].whole(), slots.size() > 1 ? slots[1].whole() : Value(), options_.update);
}

namespace {

using Maker = std::unique_ptr<Optimizer> (*)(std::vector<Group>, double momentum, double weight_decay);
struct Named {
  std::string_view name;
  std::optional<double> momentum;  // by default; none: it takes no momentum
  double weight_decay;
  Maker make;
};

constexpr std::array<Named, 6> kOptimizers{{
    {"sgd", 0, 0,
     [](std::vector<Group> g, double m, double w) -> std::unique_ptr<Optimizer> {
       return std::make_unique<Sgd>(std::move(g), SgdOptions{m, w});
     }},
    {"momentum", 0.9, 0,
     [](std::vector<Group> g, double m, double w) -> std::unique_ptr<Optimizer> {
       return std::make_unique<Sgd>(std::move(g), SgdOptions{m, w});
     }},
    {"nesterov", 0.9, 0,
     [](std::vector<Group> g, double m, double w) -> std::unique_ptr<Optimizer> {
       return std::make_unique<Sgd>(std::move(g), SgdOptions{m, w, true});
     }},
    {"adam", std::nullopt, 0,
     [](std::vector<Group> g, double, double w) -> std::unique_ptr<Optimizer> { return std::make_unique<Adam>(std::move(g), AdamOptions{.weight_decay = w}); }},
    {"adamw", std::nullopt, 0.01,
     [](std::vector<Group> g, double, double w) -> std::unique_ptr<Optimizer> {
       return std::make_unique<Adam>(std::move(g), AdamOptions{.update = {.decoupled = true}, .weight_decay = w});
     }},
    {"rmsprop", 0, 0,
     [](std::vector<Group> g, double m, double w) -> std::unique_ptr<Optimizer> {
       return std::make_unique<Rmsprop>(std::move(g), RmspropOptions{.update = {.momentum = m}, .weight_decay = w});
     }},
}};

const Named& named(std::string_view name) {
  const auto* found = std::ranges::find(kOptimizers, name, &Named::name);
  if (found == kOptimizers.end()) throw UsageError(fmt::format("optimizer: {} is unknown; accepted: {}", name, fmt::join(names(), ", ")));
  return *found;
}

}  // namespace

std::vector<std::string_view> names() {
  std::vector<std::string_view> out;
  for (const Named& o : kOptimizers) out.push_back(o.name);
  return out;
}

Settings with_defaults(std::string_view name, const Settings& settings) {
  const Named& o = named(name);
  if (settings.momentum && !o.momentum)
    throw UsageError(fmt::format("optimizer: {} takes no momentum, {} given; accepted with sgd, momentum, nesterov and rmsprop", name, *settings.momentum));
  return {settings.momentum ? settings.momentum : o.momentum, settings.weight_decay.value_or(o.weight_decay)};
}

std::unique_ptr<Optimizer> make(std::string_view name, std::vector<Group> groups, const Settings& settings) {
  const Settings all = with_defaults(name, settings);
  return named(name).make(std::move(groups), all.momentum.value_or(0), *all.weight_decay);
}

}  // namespace gemel::optim
