// Ratings: neural collaborative filtering recommends items to users.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <utility>

#include "datasets/ratings/synthetic_ratings.h"
#include "engine/base/accepted.h"
#include "frontends/domains/domain.h"
#include "frontends/models/ratings/ncf.h"
#include "frontends/train/tasks/recommendation_task.h"

namespace gemel::domains {
namespace {

constexpr const char *kModel = "ncf", *kRatings = "ratings";

struct RatingsData {
  std::string dataset = kSynthetic, folder, config = "base";  // synthetic ratings need no folder
  std::int64_t limit = 0;
  std::int64_t users = 512, items = 256, samples = 0;  // of synthetic ratings; samples to train with at least
  std::uint64_t seed = 1;                              // that they are made by, and items that were not met are drawn by
};

datasets::RatingSplits opened(const RatingsData& o) {
  const datasets::RatingsOptions ratings{.name = o.dataset, .limit = o.limit, .seed = o.seed};
  if (o.dataset == kSynthetic) return datasets::synthetic_ratings({o.users, o.items, o.samples, ratings});
  return datasets::open_ratings(o.folder, ratings);
}

class RatingsWorkload : public Workload {
 public:
  explicit RatingsWorkload(RatingsData ratings) : ratings_(std::move(ratings)), config_(models::ncf_config(ratings_.config)), data_(opened(ratings_)) {}
  std::string title() const override { return fmt::format("{}-{}", kModel, std::filesystem::path(ratings_.config).stem().string()); }
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
            {"data set", ratings_.dataset, Bearing::sample_order},
            {"configuration", ratings_.config, Bearing::state}};
  }

 private:
  RatingsData ratings_;
  models::NcfConfig config_;
  datasets::RatingSplits data_;
};

OpenWorkload opener(const RatingsData& ratings) {
  return [ratings] { return std::make_unique<RatingsWorkload>(ratings); };
}

OpenWorkload read_ratings(const RunOptions& options) {
  return opener({.dataset = checked_data_set(options, {kSynthetic, kRatings}, "the folder of its ratings.tsv"),
                 .folder = options.text("data"),
                 .config = options.text("config"),
                 .limit = sample_limit(options),
                 .seed = data_seed(options)});
}

std::vector<MadeUp> made_up_ratings(const RunOptions& options, std::int64_t samples) {
  constexpr std::int64_t kMost = 100'000'000;      // users, or items
  constexpr const char* kMovieLens = "6040x3706";  // of MovieLens 1M
  const std::string& given = options.text("input");
  std::vector<MadeUp> out;
  for (const std::string& input : split_at_commas(given.empty() ? kMovieLens : given)) {
    const std::vector<std::int64_t> extents = parse_extents("--input", input, kMovieLens, kMost);
    out.push_back({fmt::format("{}", fmt::join(extents, "x")),
                   opener({.config = options.text("config"), .users = extents[0], .items = extents[1], .samples = samples, .seed = data_seed(options)})});
  }
  return out;
}

}  // namespace

const Domain& ratings() {
  static const Domain domain{
      .name = "ratings",
      .takes = "takes ratings",
      .models = [] { return std::vector<std::string>{kModel}; },
      .data_sets =
          [] {
            return std::vector<std::string>{kSynthetic, kRatings};
          },
      .options = {&kAugment, &kConfig},
      .made_up_input = "UxI: users and items (default 6040x3706)",
      .augmentation = "standard",
      .has_blocks = [](const std::string&) { return false; },
      .read = read_ratings,
      .made_up = made_up_ratings,
  };
  return domain;
}

}  // namespace gemel::domains
