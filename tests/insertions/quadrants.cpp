// Points of a plane by their quadrant: a domain that `tests/insertions/run` adds to a copy of the sources.
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "frontends/domains/domain.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"

namespace gemel::domains {
namespace {

constexpr std::int64_t kQuadrants = 4, kWidth = 16;

/// Points on a spiral, which visit the quadrants in turn.
class Points : public datasets::Dataset {
 public:
  explicit Points(std::int64_t count) : count_(count) {}
  std::string_view name() const override { return kSynthetic; }
  std::int64_t size() const override { return count_; }
  std::int64_t classes() const override { return kQuadrants; }
  std::vector<datasets::HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<datasets::Draws>&) const override {
    std::vector<float> points;
    std::vector<std::int64_t> labels;
    for (const std::int64_t i : samples) {
      const double angle = 0.7 * static_cast<double>(i), radius = 1 + static_cast<double>(i % 7) / 7, x = radius * std::cos(angle),
                   y = radius * std::sin(angle);
      points.push_back(static_cast<float>(x));
      points.push_back(static_cast<float>(y));
      labels.push_back((x > 0) + 2 * (y > 0));
    }
    const auto n = static_cast<std::int64_t>(samples.size());
    return {datasets::host_tensor<float>("points", Shape{n, 2}, points), datasets::host_tensor<std::int64_t>("labels", Shape{n}, labels)};
  }

 private:
  std::int64_t count_;
};

class QuadrantWorkload : public Workload {
 public:
  explicit QuadrantWorkload(std::int64_t samples) : train_(samples), validation_(64) {}
  std::string title() const override { return "quadrants"; }
  const datasets::Dataset& train_data() const override { return train_; }
  const datasets::Dataset* validation_data() const override { return &validation_; }
  std::unique_ptr<nn::Module> model(const ModelChanges&) const override {
    auto out = std::make_unique<nn::Sequential>();
    out->emplace<nn::Linear>(2, kWidth);
    out->emplace<nn::ReLU>();
    out->emplace<nn::Linear>(kWidth, kQuadrants);
    return out;
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override {
    return std::make_unique<train::ClassificationTask>(module, kQuadrants, train::ClassificationOptions{.tensors = {"points"}});
  }
  Specs batch(std::int64_t samples) const override { return {f32({samples, 2}), i64({samples})}; }
  train::RunIdentity identity() const override { return {{"data set", kSynthetic, train::Bearing::sample_order}}; }

 private:
  Points train_, validation_;
};

OpenWorkload opener(std::int64_t samples) {
  return [samples] { return std::make_unique<QuadrantWorkload>(samples); };
}

OpenWorkload read_points(const RunOptions& options) {
  checked_data_set(options, {kSynthetic}, "nothing");
  return opener(512);
}

std::vector<MadeUp> made_up_points(const RunOptions&, std::int64_t samples) { return {{"2", opener(samples)}}; }

}  // namespace

const Domain& quadrants() {
  static const Domain domain{
      .name = "points",
      .takes = "takes points",
      .models = [] { return std::vector<std::string>{"quadrants"}; },
      .data_sets = [] { return std::vector<std::string>{kSynthetic}; },
      .options = {},
      .made_up_input = nullptr,
      .has_blocks = [](const std::string&) { return false; },
      .read = read_points,
      .made_up = made_up_points,
  };
  return domain;
}

}  // namespace gemel::domains
