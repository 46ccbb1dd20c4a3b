// Progress: how far each stage of a schedule has come, and what it waits for. schedule_check.h and simulate.h are built on it.
#pragma once
#include <optional>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace gemel::parallel {

class Progress {
 public:
  /// @param schedule  each stage's actions are those of its own pieces; must outlive this object
  explicit Progress(const Schedule& schedule);

  /// Next action of a stage; null at its end.
  const Action* next(int stage) const;
  /// An action that must run before the stage's next one and has not run; nothing if there is none.
  std::optional<Action> waits_for(int stage) const;
  /// Records that the stage's next action has run.
  void advance(int stage);
  bool finished() const;

  /// Runs actions until none can run.
  /// @param waits  (stage) -> optional<Action>: what the stage's next action waits for
  /// @param run    (stage, action): called when all that the action waits for has run
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
  std::vector<std::size_t> done_;  // [stage] number of actions
  std::vector<bool> ran_;          // [index of an action]
};

}  // namespace gemel::parallel
