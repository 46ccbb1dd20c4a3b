#include "frontends/cli/model_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "datasets/dataset.h"
#include "engine/files/safetensors.h"
#include "frontends/nn/state_dict.h"

namespace gemel::cli {

std::string model_help() { return fmt::format("model: {}", fmt::join(models::names(), ", ")); }

std::string model_name(const po::variables_map& v) {
  const auto known = models::names();
  check_choice("--model", v["model"].as<std::string>(), {known.begin(), known.end()});
  return v["model"].as<std::string>();
}

std::vector<std::string> model_names(const po::variables_map& v) {
  const auto known = models::names();
  const std::vector<std::string> names = words_of(v["model"].as<std::string>());
  for (const std::string& name : names) check_choice("--model", name, {known.begin(), known.end()});
  return names;
}

Shape input_of(const po::variables_map& v, const std::string& model) {
  const auto given = v["input"].as<std::string>();
  return given.empty() ? models::usual_input(model) : Shape(parse_extents("--input", given, 3));
}

std::vector<Shape> inputs_of(const po::variables_map& v, const std::string& model) {
  const auto given = v["input"].as<std::string>();
  if (given.empty()) return {models::usual_input(model)};
  std::vector<Shape> out;
  for (const std::string& input : words_of(given)) out.emplace_back(parse_extents("--input", input, 3));
  return out;
}

std::int64_t class_count(const po::variables_map& v, std::int64_t least) {
  return whole_number(v, "classes", static_cast<double>(least), datasets::kMaxClasses);
}

void add_recompute_option(po::options_description& options) {
  options.add_options()
      ("recompute", po::value<std::string>()->default_value("none"),
       "none, or blocks: the backward pass computes the model's repeated blocks again; less memory, more time, the same results");
}

models::RecomputedParts recompute_option(const po::variables_map& v, const std::string& model) {
  const auto given = v["recompute"].as<std::string>();
  check_choice("--recompute", given, {"none", "blocks"});
  const auto recompute = given == "blocks" ? models::RecomputedParts::blocks : models::RecomputedParts::none;
  models::check_recompute(model, recompute);
  return recompute;
}

void add_loaded_model_options(po::options_description& options) {
  options.add_options()
      ("model", po::value<std::string>()->required(), model_help().c_str())
      ("weights", po::value<std::string>()->required(), "safetensors file with torchvision's names and layouts")
      ("classes", po::value<std::int64_t>()->default_value(0), "size of the last layer; 0: by the data or the file");
}

std::unique_ptr<nn::Module> model_of_weights(const po::variables_map& v, std::int64_t data_classes, std::int64_t channels) {
  const std::string name = model_name(v);
  models::Options options;
  options.channels = channels;
  const auto weights = v["weights"].as<std::string>();
  if (const auto asked = class_count(v, 0); asked > 0)
    options.classes = asked;
  else if (data_classes > 0)
    options.classes = data_classes;
  else if (const auto in_file = nn::output_size_in(*models::make(name, options), SafetensorsFile(weights).tensors()))
    options.classes = *in_file;
  auto model = models::make(name, options);
  model->eval();
  return model;
}

std::unique_ptr<nn::Module> load_model(const po::variables_map& v, Session& session, std::int64_t data_classes, std::int64_t channels) {
  auto model = model_of_weights(v, data_classes, channels);
  nn::load_weights(*model, session, v["weights"].as<std::string>());
  return model;
}

}  // namespace gemel::cli
