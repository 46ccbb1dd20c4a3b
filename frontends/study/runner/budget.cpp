#include "frontends/study/runner/budget.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gemel::study {
namespace {

constexpr const char *kEpochs = "epochs", *kLimit = "limit", *kBatch = "batch-size";

bool is_positive(const Json& spec, const char* key) { return spec.contains(key) && spec[key].is_number_integer() && spec[key] > 0; }

/// The key by which a spec counts steps; null: it counts none, or as many as its epochs have.
const char* key_of_steps(const Json& spec) {
  for (const char* key : {"runs", "steps"})
    if (is_positive(spec, key)) return key;
  return nullptr;
}

std::int64_t scaled_steps(std::int64_t steps, double scale) {
  return std::max<std::int64_t>(std::min<std::int64_t>(steps, kLeastSteps), std::llround(scale * static_cast<double>(steps)));
}

}  // namespace

Json scaled(Json spec, double scale) {
  if (const char* key = key_of_steps(spec)) {
    spec[key] = scaled_steps(spec[key], scale);
  } else if (is_positive(spec, kEpochs)) {
    const double epochs = scale * spec[kEpochs].get<double>();
    spec[kEpochs] = std::max(1LL, std::llround(epochs));
    if (epochs < 1 && is_positive(spec, kLimit))
      spec[kLimit] = std::max<std::int64_t>(spec.value(kBatch, std::int64_t{1}), std::llround(epochs * spec[kLimit].get<double>()));
  }
  return spec;
}

CaseCost::CaseCost(const Json& spec, const ProcessRecord& run) : spec_(spec), steps_(static_cast<double>(run.samples_ms.size()) / run.scale) {
  step_s_ = 1e-3 * run.metrics.value("ms", 0.0);
  fixed_s_ = std::max(0.0, run.seconds - step_s_ * static_cast<double>(run.samples_ms.size()));
}

double CaseCost::seconds(double scale) const {
  const char* key = key_of_steps(spec_);
  const double steps = key ? static_cast<double>(scaled_steps(spec_[key], scale)) : scale * steps_;
  return fixed_s_ + step_s_ * steps;
}

CaseCost CaseCost::less(double spared_s) const {
  CaseCost out = *this;
  out.fixed_s_ = std::max(0.0, fixed_s_ - spared_s);
  return out;
}

double scale_within(const std::vector<CaseCost>& cases, int blocks, double seconds) {
  const auto fits = [&](double scale) {
    double block = 0;
    for (const CaseCost& one : cases) block += one.seconds(scale);
    return blocks * block <= seconds;
  };
  double scale = 1;
  while (scale > kLeastScale && !fits(scale)) scale -= 0.05;
  return std::max(kLeastScale, std::round(100 * scale) / 100);
}

std::vector<int> repeats_within(const std::vector<double>& costs, int blocks, double seconds) {
  const auto repeats = [&](double level) {  // none for longer than this, but for its first
    std::vector<int> out;
    for (const double cost : costs) out.push_back(cost <= 0 ? blocks : std::clamp(static_cast<int>(std::min(level / cost, 1.0 * blocks)), 1, blocks));
    return out;
  };
  const auto total = [&](const std::vector<int>& of) {
    double sum = 0;
    for (std::size_t i = 0; i < costs.size(); ++i) sum += of[i] * costs[i];
    return sum;
  };
  double low = 0, high = costs.empty() ? 0 : blocks * std::ranges::max(costs);
  if (total(repeats(high)) <= seconds) return repeats(high);
  for (int halving = 0; halving < 50; ++halving) {
    const double level = 0.5 * (low + high);
    (total(repeats(level)) <= seconds ? low : high) = level;
  }
  return repeats(low);
}

std::vector<int> spread_ranks(int blocks) {
  const auto reversed = [](int block) {
    unsigned out = 0;
    for (int bit = 0; bit < 16; ++bit) out = (out << 1) | ((static_cast<unsigned>(block) >> bit) & 1);
    return out;
  };
  std::vector<int> order(static_cast<std::size_t>(blocks)), ranks(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, reversed);
  for (int rank = 0; rank < blocks; ++rank) ranks[static_cast<std::size_t>(order[static_cast<std::size_t>(rank)])] = rank;
  return ranks;
}

}  // namespace gemel::study
