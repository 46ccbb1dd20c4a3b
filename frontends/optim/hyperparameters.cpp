#include "frontends/optim/hyperparameters.h"

#include <cmath>
#include <span>

namespace gemel::optim {

std::vector<float> Hyperparameters::numbers(std::size_t row, double step_rate, std::int64_t step) const {
  const Group& g = groups.at(rows.at(row).group);
  std::vector<float> out{static_cast<float>(step_rate * g.rate_factor), static_cast<float>(g.weight_decay.value_or(weight_decay))};
  for (const double beta : betas) out.push_back(static_cast<float>(1 - std::pow(beta, static_cast<double>(step))));
  return out;
}

Spec Hyperparameters::spec() const { return f32({std::ssize(rows), 2 + std::ssize(betas)}); }

Value Hyperparameters::tensor(Session& session, double step_rate) const {
  std::vector<float> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<float> row = numbers(i, step_rate, rows[i].steps + 1);
    all.insert(all.end(), row.begin(), row.end());
  }
  return session.tensor(spec(), std::span<const float>(all));
}

void Hyperparameters::count(const std::vector<bool>& has_gradient) {
  const std::vector<bool> still = frozen();
  ++steps;
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].steps += has_gradient.at(i) && !still[i];
}

std::vector<std::int64_t> Hyperparameters::parameter_steps() const {
  std::vector<std::int64_t> out;
  for (const Row& row : rows) out.push_back(row.steps);
  return out;
}

std::vector<bool> Hyperparameters::frozen() const {
  std::vector<bool> out;
  for (const Row& row : rows) out.push_back(row.parameter && !row.parameter.wants_gradient());
  return out;
}

}  // namespace gemel::optim
