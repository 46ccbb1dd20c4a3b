#include "frontends/cli/options/model_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/error.h"
#include "frontends/cli/system/console.h"
#include "frontends/domains/domain.h"

namespace gemel::cli {

std::string model_help(ModelKinds kinds) { return fmt::format("model: {}", fmt::join(domains::model_names(kinds == ModelKinds::of_infer), ", ")); }

void add_recompute_option(po::options_description& options) {
  options.add_options()("recompute", po::value<std::string>()->default_value("none"),
                        "none, or blocks: the backward pass computes the model's repeated blocks again; less memory, more time, the same results");
}

models::RecomputedParts recompute_option(const domains::RunOptions& options) {
  if (options.choice("recompute", {"none", "blocks"}) == "none") return models::RecomputedParts::none;
  const std::string& model = options.text("model");
  const domains::Domain& domain = domains::of_model(options);
  if (domain.has_blocks(model)) return models::RecomputedParts::blocks;
  std::vector<std::string> others;
  for (const std::string& other : domain.models())
    if (domain.has_blocks(other)) others.push_back(other);
  throw UsageError(fmt::format("--recompute: blocks is given with --model {}, which has no repeated blocks; accepted: none{}", model,
                               others.empty() ? "" : fmt::format(", or another model: {}", fmt::join(others, ", "))));
}

void add_loaded_model_options(po::options_description& options, ModelKinds kinds) {
  auto option = options.add_options();
  option("model", po::value<std::string>()->required(), model_help(kinds).c_str());
  option("weights", po::value<std::string>()->required(),
         "safetensors file with torchvision's names and layouts, or Hugging Face's; or the index or folder of its shards");
  option("classes", po::value<std::int64_t>()->default_value(0), "size of the last layer; 0: by the data or the file");
}

void say_prefix(const nn::Loaded& loaded) {
  if (!loaded.prefix.empty()) say("weights: '{}' is taken off the file's names, which all begin with it\n", loaded.prefix);
}

}  // namespace gemel::cli
