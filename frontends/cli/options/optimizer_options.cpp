#include "frontends/cli/options/optimizer_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

namespace gemel::cli {
namespace {

std::optional<double> number_in(const po::variables_map& v, const std::string& name, double most) {
  if (!v.count(name)) return std::nullopt;
  check_range("--" + name, v[name].as<double>(), 0, most);
  return v[name].as<double>();
}

}  // namespace

void add_optimizer_options(po::options_description& options, const std::string& optimizer, double rate) {
  auto option = options.add_options();
  option("optimizer", po::value<std::string>()->default_value(optimizer), fmt::format("optimizer: {}", fmt::join(optim::names(), ", ")).c_str());
  option("lr", po::value<double>()->default_value(rate, fmt::format("{}", rate)), "learning rate");
  option("weight-decay", po::value<double>(), "weight decay (default 0.01 for adamw, else 0)");
  option("momentum", po::value<double>(), "momentum (default 0.9 for momentum and nesterov)");
}

OptimizerOptions optimizer_options(const po::variables_map& v) {
  OptimizerOptions o{.name = v["optimizer"].as<std::string>(), .settings = {}, .rate = v["lr"].as<double>()};
  const auto names = optim::names();
  check_choice("--optimizer", o.name, {names.begin(), names.end()});
  check_range("--lr", o.rate, 0, 1e30);
  o.settings = {.momentum = number_in(v, "momentum", 1), .weight_decay = number_in(v, "weight-decay", 1e6)};
  optim::with_defaults(o.name, o.settings);  // may refuse
  return o;
}

Json resolved(Json spec, const OptimizerOptions& o) {
  const optim::Settings settings = optim::with_defaults(o.name, o.settings);
  spec["weight-decay"] = *settings.weight_decay;
  if (settings.momentum) spec["momentum"] = *settings.momentum;
  return spec;
}

}  // namespace gemel::cli
