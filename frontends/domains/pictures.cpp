// Workloads of pictures: torchvision's models as classifiers.
#include "datasets/pictures/picture_dataset.h"
#include "frontends/domains/workload_kinds.h"
#include "frontends/models/pictures/picture_models.h"

namespace gemel::cli {
namespace {

class PictureWorkload : public Workload {
 public:
  explicit PictureWorkload(WorkloadOptions options) : options_(std::move(options)), data_(datasets::open_dataset(options_.pictures)) {}
  std::string title() const override { return options_.model; }
  const datasets::Dataset& train_data() const override { return *data_.train; }
  const datasets::Dataset* validation_data() const override { return data_.validation.get(); }
  std::unique_ptr<nn::Module> model(const ModelChanges& changes) const override {
    return models::make(options_.model,
                        {.classes = data_.train->classes(), .dropout = changes.dropout, .channels = data_.train->shape()[0], .recompute = changes.recompute});
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override {
    return std::make_unique<train::ClassificationTask>(module, data_.train->classes(),
                                                       train::ClassificationOptions{.label_smoothing = options_.label_smoothing});
  }
  Specs batch(std::int64_t samples) const override {
    const Shape& picture = data_.train->shape();
    return {f32({samples, picture[1], picture[2], picture[0]}), i64({samples})};
  }
  train::RunIdentity identity() const override {
    using train::Bearing;
    return {{"classes", std::to_string(data_.train->classes()), Bearing::state},
            {"data set", options_.pictures.name, Bearing::sample_order},
            {"input", to_string(data_.train->shape()), Bearing::setting},
            {"normalize", options_.pictures.normalize == datasets::Normalize::standard ? "standard" : "none", Bearing::setting}};
  }

 private:
  WorkloadOptions options_;
  datasets::Splits data_;
};

}  // namespace

std::unique_ptr<Workload> picture_workload(const WorkloadOptions& options) { return std::make_unique<PictureWorkload>(options); }

}  // namespace gemel::cli
