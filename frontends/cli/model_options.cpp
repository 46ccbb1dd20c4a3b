#include "frontends/cli/loaded_model.h"

#include "engine/safetensors.h"
#include "frontends/models/models.h"
#include "frontends/nn/state_dict.h"

namespace gemel::cli {

void add_model_options(po::options_description& options) {
  std::string names;
  for (const auto& n : models::names()) names += (names.empty() ? "model: " : ", ") + std::string(n);
  options.add_options()
      ("model", po::value<std::string>()->required(), names.c_str())
      ("weights", po::value<std::string>()->required(), "safetensors file with torchvision's names and layouts")
      ("classes", po::value<std::int64_t>()->default_value(0), "size of the last layer; 0: by the data or the file");
}

std::unique_ptr<nn::Module> load_model(const po::variables_map& v, Session& session, std::int64_t data_classes, std::int64_t channels) {
  const auto name = v["model"].as<std::string>();
  const auto known = models::names();
  check_choice("--model", name, {known.begin(), known.end()});
  check_range("--classes", static_cast<double>(v["classes"].as<std::int64_t>()), 0, 1e9);
  models::Options options;
  options.channels = channels;
  const auto weights = v["weights"].as<std::string>();
  if (const auto asked = v["classes"].as<std::int64_t>(); asked > 0)
    options.classes = asked;
  else if (data_classes > 0)
    options.classes = data_classes;
  else if (const auto in_file = nn::output_size_in(*models::make(name, options), SafetensorsFile(weights).tensors()))
    options.classes = *in_file;
  auto model = models::make(name, options);
  nn::load_weights(*model, session, weights);
  model->eval();
  return model;
}

}  // namespace gemel::cli
