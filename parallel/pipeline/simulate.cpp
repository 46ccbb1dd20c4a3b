#include "parallel/pipeline/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/pipeline/schedule_check.h"
#include "parallel/pipeline/schedule_progress.h"

namespace gemel::parallel {
namespace {

using Kind = Action::Kind;

void check_sizes(const Schedule& schedule, const SimulatedCosts& costs) {
  const auto expect = [](const char* what, std::size_t given, int expected) {
    if (given != at(expected)) throw InternalError(fmt::format("pipeline: {} {} given; accepted: {}", given, what, expected));
  };
  expect("forward times", costs.forward_s.size(), schedule.pieces());
  expect("backward times", costs.backward_s.size(), schedule.pieces());
  if (!costs.transfer_s.empty()) expect("transfer times", costs.transfer_s.size(), schedule.pieces() - 1);
  if (!costs.update_s.empty()) expect("update times", costs.update_s.size(), schedule.stages);
  if (!costs.sizes.empty()) expect("sizes of micro-batches", costs.sizes.size(), schedule.micro_batches);
}

class Clock {
 public:
  Clock(const Schedule& schedule, const SimulatedCosts& costs)
      : schedule_(schedule), costs_(costs), now_(at(schedule.stages)), busy_(now_), spans_(at(schedule.stages)) {}

  void run(int stage, const Action& action) {
    double& now = now_[at(stage)];
    double begin = now;
    if (action.kind == Kind::forward || action.kind == Kind::backward || action.kind == Kind::update) {
      const double seconds = action.kind == Kind::update ? update_s(stage) : compute_s(action);
      now += seconds;
      busy_[at(stage)] += seconds;
    } else if (action.is_send()) {
      const int peer = schedule_.peer(action);
      double& free = free_[{stage, peer}];
      begin = std::max(now, free);
      free = begin + transfer_s(action);
      arrives_[{schedule_.tag(action), action.micro_batch}] = free;
      return add(stage, action, begin, free);
    } else if (action.is_receive()) {
      now = std::max(now, arrives_.at({schedule_.tag(action), action.micro_batch}));
    }
    add(stage, action, begin, now);
  }

  PipelineTimes times() {
    PipelineTimes out{std::ranges::max(now_), std::ranges::max(busy_), busy_, {}};
    for (auto& spans : spans_) out.spans.insert(out.spans.end(), spans.begin(), spans.end());
    return out;
  }

 private:
  double size(const Action& a) const { return costs_.sizes.empty() ? 1 : costs_.sizes[at(a.micro_batch)]; }
  double compute_s(const Action& a) const { return (a.kind == Kind::forward ? costs_.forward_s : costs_.backward_s)[at(a.piece)] * size(a); }
  double update_s(int stage) const { return costs_.update_s.empty() ? 0 : costs_.update_s[at(stage)]; }
  double transfer_s(const Action& a) const {
    return costs_.transfer_s.empty() ? 0 : costs_.transfer_s[at(std::min(a.piece, schedule_.other_piece(a)))] * size(a);
  }
  void add(int stage, const Action& action, double begin, double end) { spans_[at(stage)].push_back({stage, action, begin, end}); }

  const Schedule& schedule_;
  const SimulatedCosts& costs_;
  std::vector<double> now_, busy_;                        // [stage]
  std::map<std::pair<int, int>, double> free_, arrives_;  // by stages from and to; by tag and micro-batch
  std::vector<std::vector<PipelineTimes::Span>> spans_;   // [stage]
};

}  // namespace

PipelineTimes simulate(const Schedule& schedule, const SimulatedCosts& costs) {
  check(schedule);
  check_sizes(schedule, costs);
  Clock clock(schedule, costs);
  Progress progress(schedule);
  progress.run_all([&](int stage) { return progress.waits_for(stage); }, [&](int stage, const Action& action) { clock.run(stage, action); });
  return clock.times();
}

}  // namespace gemel::parallel
