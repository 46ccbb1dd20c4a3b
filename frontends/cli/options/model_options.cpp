#include "frontends/cli/options/model_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "datasets/pictures/picture_dataset.h"
#include "engine/base/error.h"
#include "engine/files/weights.h"
#include "frontends/cli/system/console.h"
#include "frontends/domains/workload.h"
#include "frontends/models/texts/text_models.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::cli {

namespace {

std::vector<std::string> known_models(ModelKinds kinds) {
  const auto of_pictures = models::names();
  std::vector<std::string> out(of_pictures.begin(), of_pictures.end());
  if (kinds == ModelKinds::pictures) return out;
  for (const std::string_view name : models::text_names()) out.emplace_back(name);
  out.emplace_back(kSpeech);
  if (kinds == ModelKinds::all) out.emplace_back(kNcf);
  return out;
}

}  // namespace

std::string model_help(ModelKinds kinds) { return fmt::format("model: {}", fmt::join(known_models(kinds), ", ")); }

std::string model_name(const po::variables_map& v, ModelKinds kinds) {
  check_choice("--model", v["model"].as<std::string>(), known_models(kinds));
  return v["model"].as<std::string>();
}

std::vector<std::string> model_names(const po::variables_map& v) {
  const std::vector<std::string> names = words_of(v["model"].as<std::string>());
  for (const std::string& name : names) check_choice("--model", name, known_models(ModelKinds::all));
  return names;
}

std::int64_t class_count(const po::variables_map& v, std::int64_t least) {
  return whole_number(v, "classes", static_cast<double>(least), datasets::kMaxClasses);
}

void add_recompute_option(po::options_description& options) {
  options.add_options()("recompute", po::value<std::string>()->default_value("none"),
                        "none, or blocks: the backward pass computes the model's repeated blocks again; less memory, more time, the same results");
}

models::RecomputedParts recompute_option(const po::variables_map& v, const std::string& model) {
  const auto given = v["recompute"].as<std::string>();
  check_choice("--recompute", given, {"none", "blocks"});
  const auto recompute = given == "blocks" ? models::RecomputedParts::blocks : models::RecomputedParts::none;
  const bool of_texts = takes_texts(model), has_none = model == kNcf || model == kSpeech || (of_texts && !models::text_has_blocks(model));
  if (has_none && recompute != models::RecomputedParts::none)
    throw UsageError(fmt::format("--recompute: blocks is given with --model {}, which has no repeated blocks; accepted: none", model));
  if (!of_texts && !has_none) models::check_recompute(model, recompute);
  return recompute;
}

void add_loaded_model_options(po::options_description& options, ModelKinds kinds) {
  auto option = options.add_options();
  option("model", po::value<std::string>()->required(), model_help(kinds).c_str());
  option("weights", po::value<std::string>()->required(),
         "safetensors file with torchvision's names and layouts, or Hugging Face's; or the index or folder of its shards");
  option("classes", po::value<std::int64_t>()->default_value(0), "size of the last layer; 0: by the data or the file");
}

std::unique_ptr<nn::Module> model_of_weights(const po::variables_map& v, std::int64_t channels) {
  const std::string name = model_name(v);
  models::Options options;
  options.channels = channels;
  const auto weights = v["weights"].as<std::string>();
  if (const auto asked = class_count(v, 0); asked > 0)
    options.classes = asked;
  else if (const auto in_file = nn::output_size_in(*models::make(name, options), WeightsHeader(weights).tensors()))
    options.classes = *in_file;
  auto model = models::make(name, options);
  model->eval();
  return model;
}

void say_prefix(const nn::Loaded& loaded) {
  if (!loaded.prefix.empty()) say("weights: '{}' is taken off the file's names, which all begin with it\n", loaded.prefix);
}

}  // namespace gemel::cli
