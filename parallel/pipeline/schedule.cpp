#include "parallel/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::parallel {
namespace {

using Kind = Action::Kind;

constexpr std::pair<ScheduleKind, std::string_view> kNames[] = {
    {ScheduleKind::gpipe, "gpipe"}, {ScheduleKind::one_f_one_b, "1f1b"}, {ScheduleKind::interleaved, "interleaved"}};

/// The k-th forward of a stage. With one piece it is micro-batch k; with more, `stages` micro-batches go through one piece before the next one.
/// The k-th backward takes the same micro-batch through the pieces in the opposite order.
Action compute(const PipelineShape& shape, int stage, Kind kind, int k) {
  const int round = k / shape.pieces(), in_round = k % shape.pieces();
  const int turn = in_round / shape.stages;
  const int virtual_stage = kind == Kind::forward ? turn : shape.virtual_stages - 1 - turn;
  return {kind, virtual_stage * shape.stages + stage, round * shape.stages + in_round % shape.stages};
}

/// Forwards of a stage before its first backward, but for the one directly before it.
int warm_up(const PipelineShape& shape, int stage) {
  const int all = shape.micro_batches * shape.virtual_stages, behind = shape.stages - stage - 1;
  switch (shape.kind) {
    case ScheduleKind::gpipe:
      return all;
    case ScheduleKind::one_f_one_b:
      return std::min(behind, all);
    case ScheduleKind::interleaved:
      return std::min(2 * behind + (shape.virtual_stages - 1) * shape.stages, all);
  }
  throw InternalError("pipeline: a schedule of no kind");
}

/// A compute between the receive that it needs and the send of what it makes.
void append_with_messages(const Schedule& schedule, const Action& compute, std::vector<Action>& out) {
  const auto [kind, piece, micro_batch] = compute;
  const bool forward = kind == Kind::forward;
  const int before = piece - 1, behind = piece;  // boundaries
  if (schedule.crosses(forward ? before : behind)) out.push_back({forward ? Kind::receive_activation : Kind::receive_gradient, piece, micro_batch});
  out.push_back(compute);
  if (schedule.crosses(forward ? behind : before)) out.push_back({forward ? Kind::send_activation : Kind::send_gradient, piece, micro_batch});
}

}  // namespace

std::string_view to_string(ScheduleKind kind) {
  for (const auto& [known, name] : kNames)
    if (known == kind) return name;
  return "";
}

ScheduleKind parse_schedule(std::string_view name) {
  for (const auto& [kind, known] : kNames)
    if (known == name) return kind;
  throw UsageError(fmt::format("pipeline: there is no schedule '{}'; accepted: gpipe, 1f1b, interleaved", name));
}

void validate(const PipelineShape& shape) {
  const auto refuse = [&](const std::string& given, const std::string& accepted) {
    throw UsageError(fmt::format("pipeline: {}; accepted: {}", given, accepted));
  };
  const std::pair<int, const char*> counts[] = {{shape.stages, "stages"}, {shape.virtual_stages, "virtual stages"}, {shape.micro_batches, "micro-batches"}};
  for (const auto& [count, name] : counts)
    if (count < 1) refuse(fmt::format("{} {}", count, name), "1 or more");
  if (shape.kind != ScheduleKind::interleaved) {
    if (shape.virtual_stages != 1)
      refuse(fmt::format("{} virtual stages with {}", shape.virtual_stages, to_string(shape.kind)), "1, or the schedule interleaved");
    return;
  }
  if (shape.virtual_stages == 1) refuse("1 virtual stage with interleaved", "2 or more, or the schedule 1f1b");
  if (shape.micro_batches % shape.stages != 0)
    refuse(fmt::format("{} micro-batches over {} stages with interleaved", shape.micro_batches, shape.stages), fmt::format("a multiple of {}", shape.stages));
}

std::string to_string(const Action& action) {
  const auto text = [&](const char* what, const char* where) {
    return fmt::format("{} of micro-batch {} {} piece {}", what, action.micro_batch, where, action.piece);
  };
  switch (action.kind) {
    case Kind::forward:
      return text("forward", "in");
    case Kind::backward:
      return text("backward", "in");
    case Kind::send_activation:
      return text("send of the activation", "from");
    case Kind::receive_activation:
      return text("receive of the activation", "for");
    case Kind::send_gradient:
      return text("send of the gradient", "from");
    case Kind::receive_gradient:
      return text("receive of the gradient", "for");
    case Kind::update:
      return "update";
  }
  return "";
}

int Schedule::other_piece(const Action& message) const {
  const bool next = message.kind == Kind::send_activation || message.kind == Kind::receive_gradient;
  return next ? message.piece + 1 : message.piece - 1;
}

int Schedule::tag(const Action& message) const {
  const bool gradient = message.kind == Kind::send_gradient || message.kind == Kind::receive_gradient;
  return 2 * std::min(message.piece, other_piece(message)) + (gradient ? 1 : 0);
}

Schedule make_schedule(const PipelineShape& shape) {
  validate(shape);
  Schedule out{shape.stages, shape.virtual_stages, shape.micro_batches, std::vector<std::vector<Action>>(at(shape.stages))};
  const int all = shape.micro_batches * shape.virtual_stages;
  for (int stage = 0; stage < shape.stages; ++stage) {
    std::vector<Action>& actions = out.actions[at(stage)];
    const int ahead = warm_up(shape, stage);
    for (int k = 0; k < all + ahead; ++k) {
      if (k < all) append_with_messages(out, compute(shape, stage, Kind::forward, k), actions);
      if (k >= ahead) append_with_messages(out, compute(shape, stage, Kind::backward, k - ahead), actions);
    }
    actions.push_back({Kind::update});
  }
  return out;
}

Schedule make_forward_schedule(const PipelineShape& shape) {
  Schedule out{shape.stages, shape.virtual_stages, shape.micro_batches, std::vector<std::vector<Action>>(at(shape.stages))};
  for (int piece = 0; piece < out.pieces(); ++piece)
    for (int k = 0; k < shape.micro_batches; ++k) append_with_messages(out, {Kind::forward, piece, k}, out.actions[at(out.stage_of(piece))]);
  return out;
}

std::vector<std::vector<int>> held_at_most(const Schedule& schedule, int stage) {
  using Counts = std::vector<int>;
  const auto none_above = [](const Counts& a, const Counts& b) { return std::ranges::equal(a, b, std::ranges::less_equal()); };
  std::vector<Counts> out;
  Counts now(at(schedule.virtual_stages), 0);
  for (const Action& a : schedule.actions[at(stage)]) {
    if (a.kind == Kind::backward) --now[at(a.piece / schedule.stages)];
    if (a.kind != Kind::forward) continue;
    ++now[at(a.piece / schedule.stages)];
    if (std::ranges::any_of(out, [&](const Counts& known) { return none_above(now, known); })) continue;
    std::erase_if(out, [&](const Counts& known) { return none_above(known, now); });
    out.push_back(now);
  }
  return out;
}

int held(const Schedule& schedule, int stage) {
  int out = 0;
  for (const auto& counts : held_at_most(schedule, stage)) out = std::max(out, std::accumulate(counts.begin(), counts.end(), 0));
  return out;
}

}  // namespace gemel::parallel
