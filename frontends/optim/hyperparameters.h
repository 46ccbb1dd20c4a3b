// Hyperparameters: the numbers of an update that change from step to step, and what they are computed from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/session.h"
#include "engine/core/value.h"

namespace gemel::optim {

/// Shared by an optimizer and the graphs that its updates are part of: whoever runs a step counts it here.
struct Hyperparameters {
  struct Group {
    double rate_factor = 1;                // times the rate of the step
    std::optional<double> weight_decay{};  // the common one where not given
  };
  /// Of one parameter: the page tables name it by its number.
  struct Row {
    Value parameter;  // its leaf
    std::size_t group = 0;
    std::int64_t steps = 0;  // those that moved it: its moments have seen as many gradients
  };
  double rate = 0, weight_decay = 0;
  std::vector<double> betas;  // of running means: each adds its bias correction, 1 - beta^step, to the numbers of a row
  std::vector<Group> groups;
  std::int64_t steps = 0;  // taken so far
  std::vector<Row> rows;

  /// What a row needs in step `step` (from 1) of its parameter at this rate: {rate, weight decay, bias corrections...}.
  std::vector<float> numbers(std::size_t row, double step_rate, std::int64_t step) const;
  /// Of `tensor`: float32 [rows, numbers].
  Spec spec() const;
  /// The numbers of all rows for the step that comes next.
  Value tensor(Session& session, double step_rate) const;
  /// Counts a step, also of each row that has a gradient and is not frozen. @param has_gradient  [row]
  void count(const std::vector<bool>& has_gradient);
  /// [row]
  std::vector<std::int64_t> parameter_steps() const;
  /// [row] whether its parameter wants no gradient for now.
  std::vector<bool> frozen() const;
};

}  // namespace gemel::optim
