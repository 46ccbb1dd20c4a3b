// Workloads of ratings: models that recommend items to users.
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "datasets/ratings/synthetic_ratings.h"
#include "frontends/domains/workload_kinds.h"
#include "frontends/models/ratings/ncf.h"
#include "frontends/train/tasks/recommendation_task.h"

namespace gemel::cli {
namespace {

datasets::RatingSplits opened(const WorkloadOptions::Ratings& o) {
  const datasets::RatingsOptions ratings{.name = o.dataset, .limit = o.limit, .seed = o.seed};
  if (o.dataset == kSynthetic) return datasets::synthetic_ratings({o.users, o.items, o.samples, ratings});
  return datasets::open_ratings(o.folder, ratings);
}

class RatingsWorkload : public Workload {
 public:
  explicit RatingsWorkload(WorkloadOptions options)
      : options_(std::move(options)), config_(models::ncf_config(options_.ratings->config)), data_(opened(*options_.ratings)) {}
  std::string title() const override { return fmt::format("{}-{}", options_.model, std::filesystem::path(options_.ratings->config).stem().string()); }
  const datasets::Dataset& train_data() const override { return *data_.train; }
  const datasets::Dataset* validation_data() const override { return data_.validation.get(); }
  std::string extent() const override { return fmt::format("{} samples of {} users and {} items", data_.train->size(), data_.users, data_.items); }
  std::unique_ptr<nn::Module> model(const ModelChanges& changes) const override {
    models::NcfConfig config = config_;
    config.dropout = changes.dropout.value_or(config.dropout);
    return models::ncf(config, {data_.users, data_.items});
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override { return std::make_unique<train::RecommendationTask>(module); }
  Specs batch(std::int64_t samples) const override { return {i64({samples, 1}), i64({samples, 1}), f32({samples, 1})}; }
  train::RunIdentity identity() const override {
    using train::Bearing;
    return {{"users", std::to_string(data_.users), Bearing::state},
            {"items", std::to_string(data_.items), Bearing::state},
            {"data set", options_.ratings->dataset, Bearing::sample_order},
            {"configuration", options_.ratings->config, Bearing::state}};
  }

 private:
  WorkloadOptions options_;
  models::NcfConfig config_;
  datasets::RatingSplits data_;
};

}  // namespace

std::unique_ptr<Workload> ratings_workload(const WorkloadOptions& options) { return std::make_unique<RatingsWorkload>(options); }

}  // namespace gemel::cli
