// The updates of server 0: which gradients are next, and what they change.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/base/numbers.h"
#include "frontends/distributed/parameter_server/parameter_server.h"

namespace gemel::distributed {

using parallel::ServerMessage;
using Kind = ServerMessage::Kind;

train::Pending ParameterServer::train(const datasets::Batch&, double rate, std::int64_t step, std::optional<double>) {
  step_ = step;
  begin();
  if (options_.progress) options_.progress(fmt::format("step {}", step));
  train::Sums sums;
  if (parts_) {
    sums = next_update(rate);
  } else {  // a benchmark: a batch of all workers, and at first a step of each, which may have to compile kernels
    const auto is_new = [this](const auto& worker) { return staleness_.steps_of(worker.first) == 0; };
    left_ = options_.parts();
    while (left_ > 0 || (!options_.rule.synchronous() && std::ranges::any_of(workers_, is_new))) sums += next_update(rate);
    ages_.clear();
  }
  return train::Pending([sums] { return sums; });
}

train::Sums ParameterServer::next_update(double rate) {
  std::vector<Gradient> next;
  const auto is_applicable = [this](const Gradient& g) { return options_.rule.synchronous() || staleness_.may_apply(g.worker); };
  for (;;) {
    grant_training();
    if (std::ssize(gradients_) >= needed())
      if (const auto found = std::ranges::find_if(gradients_, is_applicable); found != gradients_.end()) {
        if (options_.rule.synchronous()) {
          next.assign(std::make_move_iterator(gradients_.begin()), std::make_move_iterator(gradients_.end()));
          gradients_.clear();
        } else {
          next.push_back(std::move(*found));
          gradients_.erase(found);
        }
        return update(std::move(next), rate);
      }
    handle(peers_->next());
  }
}

/// In the order of samples, so that it does not matter who was first.
train::Sums ParameterServer::update(std::vector<Gradient> gradients, double rate) {
  std::ranges::sort(gradients, {}, &Gradient::number);
  train::Sums sums;
  for (const Gradient& g : gradients) sums += g.sums;
  std::vector<ServedShard::Part> parts;
  std::vector<double> weights;
  std::vector<int> ranks;
  ReachedParameters reached(gradients[0].reached.size(), 0);
  for (const Gradient& g : gradients) {
    weights.push_back(sums.weight > 0 ? g.sums.weight / sums.weight : 1.0 / static_cast<double>(gradients.size()));
    parts.push_back({g.worker, g.bytes, weights.back()});
    ranks.push_back(g.worker);
    for (std::size_t i = 0; i < std::min(reached.size(), g.reached.size()); ++i) reached[i] |= g.reached[i];
  }
  const parallel::GradientAge age = options_.rule.synchronous() ? staleness_.apply_together(ranks) : staleness_.apply(ranks[0]);
  rate *= parallel::rate_factor(options_.rule, age);
  ServerMessage message{Kind::update, {}, {rate}};
  for (const Gradient& g : gradients) message.numbers.insert(message.numbers.end(), {g.worker, g.number});
  message.reals.insert(message.reals.end(), weights.begin(), weights.end());
  tell_servers(message);
  shard_->update(parts, reached, rate);
  shard_->count_others(reached);
  update_statistics(gradients, weights);
  ages_.push_back({age.updates, options_.rule.synchronous() ? 0 : age.steps_behind});
  for (const Gradient& g : gradients) {
    if (parts_) parts_->done(g.number);
    if (Worker& worker = workers_.at(g.worker); worker.doing == Doing::has_trained) worker.doing = Doing::waits;
  }
  left_ -= std::ssize(gradients);
  leave_late_ones();
  return sums;
}

/// Synchronous workers that compute from the parameters before: others take their parts in the next step.
void ParameterServer::leave_late_ones() {
  if (!options_.rule.synchronous()) return;
  for (auto& [rank, worker] : workers_)
    if (worker.doing == Doing::trains && !std::exchange(worker.is_late, true) && parts_) parts_->give_back(*worker.number);
}

/// As TensorFlow's variables on a server: each worker's change is added. Where nobody else changed them meanwhile they are the worker's own, to the last bit.
void ParameterServer::update_statistics(const std::vector<Gradient>& gradients, std::span<const double> weights) {
  if (options_.rule.synchronous()) {
    std::vector<std::span<const std::byte>> all;
    for (const Gradient& g : gradients) all.push_back(g.statistics);
    statistics_ = buffers_.mean(all, weights);
  } else if (const Gradient& g = gradients[0]; g.statistics_version == statistics_version_) {
    statistics_.assign(g.statistics.begin(), g.statistics.end());
  } else {
    buffers_.add_change(statistics_, g.read_statistics, g.statistics);
  }
  ++statistics_version_;
}

std::optional<train::Staleness> ParameterServer::next_staleness() {
  if (ages_.empty()) return std::nullopt;
  const train::Staleness out = ages_.front();
  ages_.pop_front();
  return out;
}

}  // namespace gemel::distributed
