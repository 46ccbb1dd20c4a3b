#include "frontends/optim/hyperparameters.h"

#include <cmath>
#include <span>

namespace gemel::optim {

std::vector<float> Hyperparameters::numbers(std::size_t group, double step_rate, std::int64_t step) const {
  const Group& g = groups.at(group);
  std::vector<float> out{static_cast<float>(step_rate * g.rate_factor), static_cast<float>(g.weight_decay.value_or(weight_decay))};
  for (const double beta : betas) out.push_back(static_cast<float>(1 - std::pow(beta, static_cast<double>(step))));
  return out;
}

Spec Hyperparameters::spec() const { return f32({std::ssize(groups), 2 + std::ssize(betas)}); }

Value Hyperparameters::tensor(Session& session, double step_rate) const {
  std::vector<float> rows;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<float> row = numbers(g, step_rate, steps + 1);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return session.tensor(spec(), std::span<const float>(rows));
}

}  // namespace gemel::optim
