// Hyperparameters: the numbers of an update that change from step to step, and what they are computed from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/session.h"
#include "engine/core/value.h"

namespace gemel::optim {

/// Hyperparameters of an optimizer, shared with the graphs that contain its updates. Whoever runs a step counts it here.
struct Hyperparameters {
  struct Group {
    double rate_factor = 1;                // factor of the step's rate
    std::optional<double> weight_decay{};  // none: the optimizer's
  };
  /// A parameter; page tables refer to it by its number.
  struct Row {
    Value parameter;  // its leaf
    std::size_t group = 0;
    std::int64_t steps = 0;  // steps that updated it, which is the number of gradients in its moments
  };
  double rate = 0, weight_decay = 0;
  std::vector<double> betas;  // of running means: each adds its bias correction, 1 - beta^step, to a row's numbers
  std::vector<Group> groups;
  std::int64_t steps = 0;  // number of steps so far
  std::vector<Row> rows;

  /// Returns the numbers of a row for step `step` (from 1) of its parameter at this rate: {rate, weight decay, bias corrections...}.
  std::vector<float> numbers(std::size_t row, double step_rate, std::int64_t step) const;
  /// Spec of `tensor`: float32 [rows, numbers].
  Spec spec() const;
  /// Returns the numbers of all rows for the next step.
  Value tensor(Session& session, double step_rate) const;
  /// Counts a step, also for each row that has a gradient and is not frozen.
  /// @param has_gradient  [row]
  void count(const std::vector<bool>& has_gradient);
  /// [row] number of steps
  std::vector<std::int64_t> parameter_steps() const;
  /// [row] true if its parameter is frozen.
  std::vector<bool> frozen() const;
};

}  // namespace gemel::optim
