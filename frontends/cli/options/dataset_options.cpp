#include "frontends/cli/options/dataset_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <variant>
#include <vector>

#include "engine/base/error.h"

namespace gemel::cli {
namespace {

void add(po::options_description& options, const domains::OptionDef& option) {
  auto one = options.add_options();
  const char *name = option.name, *doc = option.doc.c_str();
  if (std::holds_alternative<bool>(option.standard)) one(name, po::bool_switch(), doc);
  if (const auto* whole = std::get_if<std::int64_t>(&option.standard)) one(name, po::value<std::int64_t>()->default_value(*whole), doc);
  if (const auto* number = std::get_if<double>(&option.standard)) one(name, po::value<double>()->default_value(*number, fmt::format("{}", *number)), doc);
  if (const auto* text = std::get_if<std::string>(&option.standard)) one(name, po::value<std::string>()->default_value(*text), doc);
}

std::string data_sets_help() {
  std::vector<std::string> out;
  for (const domains::Domain* domain : domains::all()) out.push_back(fmt::format("of {}: {}", domain->name, fmt::join(domain->data_sets(), ", ")));
  return fmt::format("data set; {}", fmt::join(out, "; "));
}

}  // namespace

void add_domain_options(po::options_description& options, domains::OptionUse most) {
  std::set<const domains::OptionDef*> added;
  for (const domains::Domain* domain : domains::all())
    for (const domains::OptionDef* option : domain->options)
      if (option->use <= most && !option->doc.empty() && added.insert(option).second) add(options, *option);
}

void add_dataset_options(po::options_description& options) {
  auto option = options.add_options();
  option("dataset", po::value<std::string>()->default_value(domains::kSynthetic), data_sets_help().c_str());
  option("data", po::value<std::string>()->default_value(""), "its folder, or for cifar10 the official .tar.gz or its .tar");
  option("limit", po::value<std::int64_t>()->default_value(0), "use only the first so many samples of each split; 0: all");
  add_domain_options(options, domains::OptionUse::data_set);
}

const std::string& made_up_input_help() {
  static const std::string help = [] {
    std::vector<std::string> inputs;
    for (const domains::Domain* domain : domains::all())
      if (domain->made_up_input) inputs.emplace_back(domain->made_up_input);
    return fmt::format("{}", fmt::join(inputs, ", or "));
  }();
  return help;
}

domains::MadeUp made_up_once(const domains::RunOptions& options, std::int64_t samples) {
  const std::vector<domains::MadeUp> all = domains::made_up(options, samples);
  if (all.size() != 1) throw UsageError(fmt::format("--input: '{}' is given; accepted: one", options.text("input")));
  return all.front();
}

}  // namespace gemel::cli
