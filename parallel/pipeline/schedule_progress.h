// How far each stage of a schedule has come, and what it waits for. What proves a schedule and what times it both run on it.
#pragma once
#include <optional>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace gemel::parallel {

class Progress {
 public:
  /// @param schedule  each stage's actions lie on it; it outlives this
  explicit Progress(const Schedule& schedule);

  /// What a stage does next; null at its end.
  const Action* next(int stage) const;
  /// One of what must have run before the stage's next action and has not; nothing where that may run.
  std::optional<Action> waits_for(int stage) const;
  /// The stage's next action has run.
  void advance(int stage);
  bool finished() const;

  /// Runs what can run, until nothing can.
  /// @param waits  (stage) -> optional<Action>: what the stage's next action waits for
  /// @param run    (stage, action): it runs now; all that it waits for has run
  template <class Waits, class Run>
  void run_all(Waits waits, Run run) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < schedule_.stages; ++stage)
        for (; next(stage) && !waits(stage); moved = true) {
          run(stage, *next(stage));
          advance(stage);
        }
    }
  }

 private:
  bool ran(const Action& action) const { return ran_[index(action)]; }
  std::size_t index(const Action& action) const;

  const Schedule& schedule_;
  std::vector<std::size_t> done_;  // [stage] actions
  std::vector<bool> ran_;          // [index of an action]
};

}  // namespace gemel::parallel
