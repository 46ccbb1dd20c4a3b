#include "parallel/pipeline/schedule_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::parallel {
namespace {

using Kind = Action::Kind;

[[noreturn]] void refuse(int stage, const std::string& what) { throw InternalError(fmt::format("pipeline: stage {}: {}", stage, what)); }

/// What a stage must do, in no order.
std::set<Action> all_of(const Schedule& schedule, int stage) {
  std::set<Action> out{{Kind::update}};
  for (int piece = stage; piece < schedule.pieces(); piece += schedule.stages)
    for (int m = 0; m < schedule.micro_batches; ++m) {
      for (const Kind kind : {Kind::forward, Kind::backward}) out.insert({kind, piece, m});
      if (schedule.crosses(piece - 1))
        for (const Kind kind : {Kind::receive_activation, Kind::send_gradient}) out.insert({kind, piece, m});
      if (schedule.crosses(piece))
        for (const Kind kind : {Kind::send_activation, Kind::receive_gradient}) out.insert({kind, piece, m});
    }
  return out;
}

void check_complete(const Schedule& schedule, int stage) {
  const std::set<Action> all = all_of(schedule, stage);
  std::set<Action> missing = all;
  for (const Action& a : schedule.actions[at(stage)]) {
    if (!all.contains(a)) refuse(stage, to_string(a) + " has no place there");
    if (missing.erase(a) == 0) refuse(stage, to_string(a) + " is there twice");
  }
  if (!missing.empty()) refuse(stage, to_string(*missing.begin()) + " is missing");
  if (schedule.actions[at(stage)].back().kind != Kind::update) refuse(stage, "update is not the last action");
}

/// Sums of gradients and running statistics depend on it.
void check_order(const Schedule& schedule, int stage) {
  std::map<std::pair<Kind, int>, int> done;  // by piece
  for (const Action& a : schedule.actions[at(stage)]) {
    if (a.kind != Kind::forward && a.kind != Kind::backward) continue;
    const int expected = done[{a.kind, a.piece}]++;
    if (a.micro_batch != expected) refuse(stage, fmt::format("{} stands before that of micro-batch {}", to_string(a), expected));
  }
}

/// Messages with one tag arrive in the order in which they were sent.
void check_messages(const Schedule& schedule) {
  std::map<int, std::vector<int>> sent;  // by tag
  for (const auto& actions : schedule.actions)
    for (const Action& a : actions)
      if (a.is_send()) sent[schedule.tag(a)].push_back(a.micro_batch);
  std::map<int, std::size_t> received;
  for (int stage = 0; stage < schedule.stages; ++stage)
    for (const Action& a : schedule.actions[at(stage)]) {
      if (!a.is_receive()) continue;
      const int tag = schedule.tag(a), arrives = sent[tag][received[tag]++];
      if (a.micro_batch != arrives)
        refuse(stage, fmt::format("{} stands where that of micro-batch {} arrives from stage {}", to_string(a), arrives, schedule.peer(a)));
    }
}

}  // namespace

std::string circle(const Schedule& schedule, const Progress& progress, const std::function<std::optional<Action>(int)>& waits) {
  if (progress.finished()) return "";
  int stage = 0;
  while (!progress.next(stage)) ++stage;
  const auto next = [&](int s) { return schedule.stage_of(waits(s)->piece); };
  // After as many steps as there are stages it is on the circle.
  for (int i = 0; i < schedule.stages; ++i) stage = next(stage);
  int first = stage;
  for (int s = next(stage); s != stage; s = next(s)) first = std::min(first, s);
  std::vector<std::string> texts;
  stage = first;
  do {
    const int owner = next(stage);
    const std::string whose = owner == stage ? "" : fmt::format(" of stage {}", owner);
    texts.push_back(fmt::format("stage {}: {} waits for {}{}, which stands behind {}", stage, to_string(*progress.next(stage)), to_string(*waits(stage)), whose,
                                owner == stage ? "it" : to_string(*progress.next(owner))));
    stage = owner;
  } while (stage != first);
  return fmt::format("{}", fmt::join(texts, "; "));
}

void check(const Schedule& schedule) {
  if (schedule.stages < 1 || schedule.virtual_stages < 1 || schedule.micro_batches < 1 || schedule.actions.size() != at(schedule.stages))
    throw InternalError(fmt::format("pipeline: a schedule of {} stages, {} virtual stages and {} micro-batches for {} stages", schedule.stages,
                                    schedule.virtual_stages, schedule.micro_batches, schedule.actions.size()));
  for (int stage = 0; stage < schedule.stages; ++stage) {
    check_complete(schedule, stage);
    check_order(schedule, stage);
  }
  check_messages(schedule);
  Progress progress(schedule);
  const auto waits = [&](int stage) { return progress.waits_for(stage); };
  progress.run_all(waits, [](int, const Action&) {});
  if (const std::string stuck = circle(schedule, progress, waits); !stuck.empty()) throw InternalError("pipeline: " + stuck);
}

}  // namespace gemel::parallel
