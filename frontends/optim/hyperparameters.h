// Hyperparameters: the numbers of an update that change from step to step, and what they are computed from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/session.h"
#include "engine/value.h"

namespace gemel::optim {

/// Plain data, shared by an optimizer and the graphs that its updates are part of: whoever runs a step counts it here.
struct Hyperparameters {
  struct Group {
    double rate_factor = 1;                // times the rate of the step
    std::optional<double> weight_decay{};  // the common one where not given
  };
  double rate = 0, weight_decay = 0;
  std::vector<double> betas;  // of running means: each adds its bias correction, 1 - beta^step, to the numbers of a group
  std::vector<Group> groups;
  std::int64_t steps = 0;  // taken so far

  /// What a group needs in step `step` (from 1) at this rate: {rate, weight decay, bias corrections...}.
  std::vector<float> numbers(std::size_t group, double step_rate, std::int64_t step) const;
  /// Of `tensor`: float32 [groups, numbers].
  Spec spec() const;
  /// All groups' numbers for the step after `steps`.
  Value tensor(Session& session, double step_rate) const;
};

}  // namespace gemel::optim
