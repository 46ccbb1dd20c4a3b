#include "parallel/pipeline/schedule_progress.h"

#include <algorithm>

#include "engine/base/numbers.h"

namespace gemel::parallel {
namespace {

using Kind = Action::Kind;

/// What must run before an action, on its stage or on another.
std::vector<Action> needs(const Schedule& schedule, const Action& action) {
  const auto [kind, piece, micro_batch] = action;
  switch (kind) {
    case Kind::forward:
      if (piece == 0) return {};
      if (schedule.crosses(piece - 1)) return {{Kind::receive_activation, piece, micro_batch}};
      return {{Kind::forward, piece - 1, micro_batch}};
    case Kind::backward:
      if (piece + 1 == schedule.pieces()) return {{Kind::forward, piece, micro_batch}};
      if (schedule.crosses(piece)) return {{Kind::forward, piece, micro_batch}, {Kind::receive_gradient, piece, micro_batch}};
      return {{Kind::forward, piece, micro_batch}, {Kind::backward, piece + 1, micro_batch}};
    case Kind::send_activation:
      return {{Kind::forward, piece, micro_batch}};
    case Kind::send_gradient:
      return {{Kind::backward, piece, micro_batch}};
    case Kind::receive_activation:
      return {{Kind::send_activation, piece - 1, micro_batch}};
    case Kind::receive_gradient:
      return {{Kind::send_gradient, piece + 1, micro_batch}};
    case Kind::update:
      return {};  // it stands behind every backward
  }
  return {};
}

}  // namespace

Progress::Progress(const Schedule& schedule)
    : schedule_(schedule), done_(at(schedule.stages), 0), ran_(at(Kind::update) * at(schedule.pieces()) * at(schedule.micro_batches)) {}

const Action* Progress::next(int stage) const {
  const auto& actions = schedule_.actions[at(stage)];
  return done_[at(stage)] < actions.size() ? &actions[done_[at(stage)]] : nullptr;
}

std::optional<Action> Progress::waits_for(int stage) const {
  for (const Action& need : needs(schedule_, *next(stage)))
    if (!ran(need)) return need;
  return std::nullopt;
}

void Progress::advance(int stage) {
  const Action& action = *next(stage);
  if (action.kind != Kind::update) ran_[index(action)] = true;
  ++done_[at(stage)];
}

bool Progress::finished() const {
  for (int stage = 0; stage < schedule_.stages; ++stage)
    if (next(stage)) return false;
  return true;
}

std::size_t Progress::index(const Action& action) const {
  return (at(action.kind) * at(schedule_.pieces()) + at(action.piece)) * at(schedule_.micro_batches) + at(action.micro_batch);
}

}  // namespace gemel::parallel
