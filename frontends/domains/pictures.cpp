// Pictures by class: torchvision's models on CIFAR-10, .npy files or pictures that are made up.
#include "frontends/domains/pictures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/accepted.h"
#include "engine/base/error.h"
#include "engine/files/weights.h"
#include "frontends/domains/domain.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::domains {
namespace {

class PictureWorkload : public Workload {
 public:
  PictureWorkload(std::string model, datasets::PictureDatasetOptions pictures, double label_smoothing)
      : model_(std::move(model)), pictures_(std::move(pictures)), label_smoothing_(label_smoothing), data_(datasets::open_dataset(pictures_)) {}
  std::string title() const override { return model_; }
  const datasets::Dataset& train_data() const override { return *data_.train; }
  const datasets::Dataset* validation_data() const override { return data_.validation.get(); }
  std::unique_ptr<nn::Module> model(const ModelChanges& changes) const override {
    return models::make(model_,
                        {.classes = data_.train->classes(), .dropout = changes.dropout, .channels = data_.train->shape()[0], .recompute = changes.recompute});
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override {
    return std::make_unique<train::ClassificationTask>(module, data_.train->classes(), train::ClassificationOptions{.label_smoothing = label_smoothing_});
  }
  Specs batch(std::int64_t samples) const override {
    const Shape& picture = data_.train->shape();
    return {f32({samples, picture[1], picture[2], picture[0]}), i64({samples})};
  }
  train::RunIdentity identity() const override {
    using train::Bearing;
    return {{"classes", std::to_string(data_.train->classes()), Bearing::state},
            {"data set", pictures_.name, Bearing::sample_order},
            {"input", to_string(data_.train->shape()), Bearing::setting},
            {"normalize", pictures_.normalize == datasets::Normalize::standard ? "standard" : "none", Bearing::setting}};
  }

 private:
  std::string model_;
  datasets::PictureDatasetOptions pictures_;
  double label_smoothing_;
  datasets::Splits data_;
};

const OptionDef kInput{"input", "", "CxHxW of its pictures; synthetic makes 3x32x32, or what a model takes that cannot train on those", OptionUse::data_set};
const OptionDef kNormalize{"normalize", "none", "none, or standard: by CIFAR-10's mean and deviation", OptionUse::data_set};

std::vector<std::string> data_sets() {
  const auto names = datasets::dataset_names();
  return {names.begin(), names.end()};
}

/// What synthetic makes where --input is not given: empty, the data set's own pictures, but for a model that takes others.
Shape synthetic_input(const std::string& model) {
  const Shape small = models::small_input(model);
  return small != Shape{3, 32, 32} ? small : Shape();
}

OpenWorkload opener(const RunOptions& options, const datasets::PictureDatasetOptions& pictures) {
  return
      [model = options.text("model"), pictures, smoothing = label_smoothing(options)] { return std::make_unique<PictureWorkload>(model, pictures, smoothing); };
}

OpenWorkload read_pictures(const RunOptions& options) { return opener(options, picture_data(options)); }

std::vector<MadeUp> made_up_pictures(const RunOptions& options, std::int64_t samples) {
  std::vector<std::vector<std::int64_t>> inputs;
  if (options.text("input").empty()) {
    const Shape usual = models::usual_input(options.text("model"));
    inputs.emplace_back(usual.begin(), usual.end());
  } else {
    for (const std::string& input : split_at_commas(options.text("input"))) inputs.push_back(parse_extents("--input", input));
  }
  std::vector<MadeUp> out;
  for (const std::vector<std::int64_t>& input : inputs)
    out.push_back({fmt::format("{}", fmt::join(input, "x")),
                   opener(options, {.input = Shape(input), .classes = class_count(options, 1), .seed = data_seed(options), .samples = samples})});
  return out;
}

/// As many classes as --classes or the weight file says.
InferRequest infer_pictures(const RunOptions& options) {
  const std::string& name = options.text("model");
  refuse(options, {"text"}, fmt::format("--model {}, which takes pictures", name), "--input");
  InferRequest request;
  models::Options changes;
  request.inputs = pictures_of(options.text("input"), changes.channels);
  if (const std::int64_t asked = class_count(options, 0); asked > 0)
    changes.classes = asked;
  else if (const auto in_file = nn::output_size_in(*models::make(name, changes), WeightsHeader(options.text("weights")).tensors()))
    changes.classes = *in_file;
  request.model = models::make(name, changes);
  request.model->eval();
  return request;
}

}  // namespace

datasets::PictureDatasetOptions picture_data(const RunOptions& options) {
  datasets::PictureDatasetOptions out;
  out.name = checked_data_set(options, data_sets(), "the path of its files");
  out.data = options.text("data");
  if (const std::string& input = options.text("input"); !input.empty())
    out.input = Shape(parse_extents("--input", input));
  else if (out.name == kSynthetic && options.has("model"))
    out.input = synthetic_input(options.text("model"));
  out.classes = class_count(options, 0);
  out.normalize = options.choice("normalize", {"none", "standard"}) == "standard" ? datasets::Normalize::standard : datasets::Normalize::none;
  out.limit = sample_limit(options);
  out.seed = data_seed(options);
  return out;
}

const Domain& pictures() {
  static const Domain domain{
      .name = "pictures",
      .takes = "takes pictures",
      .models =
          [] {
            const auto names = models::names();
            return std::vector<std::string>(names.begin(), names.end());
          },
      .data_sets = data_sets,
      .options = {&kClasses, &kInput, &kNormalize, &kAugment},
      .made_up_input = "CxHxW of a picture (default: the model's usual, 3x224x224 for most)",
      .smooths_labels = true,
      .has_blocks = [](const std::string& model) { return models::has_blocks(model); },
      .read = read_pictures,
      .made_up = made_up_pictures,
      .infer = infer_pictures,
  };
  return domain;
}

}  // namespace gemel::domains
