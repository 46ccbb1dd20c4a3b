#include "frontends/cli/options/ablation_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "engine/base/error.h"
#include "engine/ops/catalog.h"

namespace gemel::cli {
namespace {

using Texts = std::vector<std::string>;

std::string did_you_mean(const std::string& word, const Texts& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? "" : fmt::format(", did you mean '{}'?", near);
}

const OpDef& operator_of(const std::string& name) {
  Texts known;
  for (const OpDef* op : catalog()) {
    if (op->variants.empty()) continue;  // nothing is launched, or nothing but other programs
    if (op->name == name) return *op;
    known.push_back(op->name);
  }
  throw UsageError(fmt::format("--variant: operator '{}' is {}{}; accepted: those with variants, which `gemel ops` lists", name,
                               find_op(name) ? "without variants" : "unknown", did_you_mean(name, known)));
}

void check_variant(const OpDef& op, const std::string& name) {
  Texts known;
  for (const Variant& v : op.variants) known.emplace_back(v.name);
  if (std::ranges::count(known, name) == 0)
    throw UsageError(fmt::format("--variant: {} has no variant '{}'{}; accepted: {}", op.name, name, did_you_mean(name, known), fmt::join(known, ", ")));
}

std::map<std::string, std::string> variants_of(const Texts& words) {
  std::map<std::string, std::string> out;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos)
      throw UsageError(fmt::format("--variant: '{}' is given; accepted: OPERATOR=VARIANT, as `gemel ops` and `gemel ops OPERATOR` list them", word));
    const std::string op = word.substr(0, equals), variant = word.substr(equals + 1);
    check_variant(operator_of(op), variant);
    if (const auto [it, is_new] = out.emplace(op, variant); !is_new)
      throw UsageError(fmt::format("--variant: {} is given '{}' and '{}'; accepted: one variant of each operator", op, it->second, variant));
  }
  return out;
}

bool is_on(const po::variables_map& v, const char* name) {
  const auto text = v[name].as<std::string>();
  check_choice(std::string("--") + name, text, {"on", "off"});
  return text == "on";
}

/// Of what graphs alone have. @param why_not  what the eager front end does
bool is_on_in_graphs(const po::variables_map& v, const char* name, const char* why_not) {
  const bool on = is_on(v, name);
  if (!on && v["frontend"].as<std::string>() == "eager")
    throw UsageError(fmt::format("--{}: off is given with --frontend eager, which {}; accepted: graph", name, why_not));
  return on;
}

constexpr const char *kVariant = "variant", *kTuning = "tuning", *kMemoryPlan = "memory-plan", *kRecordedLaunches = "recorded-launches";

}  // namespace

void add_ablation_options(po::options_description& options) {
  auto option = options.add_options();
  option(kVariant, po::value<Texts>()->default_value({}, ""),
         "OPERATOR=VARIANT, as `gemel ops OPERATOR` lists them: this variant computes the operator wherever it is asked; may be given several times");
  option(kTuning, po::value<std::string>()->default_value("on"), "off: choose variants as if nothing had been measured by `gemel tune`");
  option(kMemoryPlan, po::value<std::string>()->default_value("on"), "off: what a graph computes has memory of its own each, not a place in one arena");
  option(kRecordedLaunches, po::value<std::string>()->default_value("on"), "off: a graph makes each launch afresh, and replays none that was recorded");
}

opencl::Ablation ablation_options(const po::variables_map& v) {
  return {.variants = variants_of(v[kVariant].as<Texts>()),
          .tuning = is_on(v, kTuning),
          .memory_plan = is_on_in_graphs(v, kMemoryPlan, "plans no memory"),
          .recorded_launches = is_on_in_graphs(v, kRecordedLaunches, "always replays what it finds recorded")};
}

std::string ablation_suffix(const Json& spec) {
  std::string out;
  const Json variants = spec.value(kVariant, Json::array());
  for (const Json& variant : variants.is_array() ? variants : Json::array({variants})) out += fmt::format("/variant:{}", variant.get<std::string>());
  for (const auto& [name, standard] : {std::pair{kTuning, "on"}, {"lstm", "fused"}, {kMemoryPlan, "on"}, {kRecordedLaunches, "on"}})
    if (const std::string value = spec.value(name, standard); value != standard) out += fmt::format("/{}:{}", name, value);
  return out;
}

}  // namespace gemel::cli
