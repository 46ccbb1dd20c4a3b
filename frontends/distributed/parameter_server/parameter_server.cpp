#include "frontends/distributed/parameter_server/parameter_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ranges>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "frontends/distributed/notices.h"
#include "frontends/distributed/parameter_server/run_outlines.h"
#include "frontends/train/checkpoint/missing_parts.h"

namespace gemel::distributed {

using parallel::PeerGone;
using parallel::ServerDelivery;
using parallel::ServerMessage;
using Kind = ServerMessage::Kind;

ParameterServer::ParameterServer(Session& session, train::Task& task, const Specs& batch, const ServerMeans& means, ParameterServerOptions options)
    : alarm_(means.alarm),
      options_(std::move(options)),
      shards_(session, task, batch, options_.servers),
      buffers_(values_of(task.module().parameters().buffers())),
      constants_(values_of(untrained(task.module()))),
      staleness_(options_.rule.synchronous() ? std::nullopt : options_.rule.staleness) {
  const std::int64_t shard = shards_.bytes(0) + buffers_.bytes();
  links_ = link_servers(means.communication, *alarm_, options_, {.takes = shard, .pages = shards_.pages(), .computes_on_host = computes_on_host(session)});
  peers_.emplace(std::move(links_.connections), *alarm_);
  for (int rank = options_.servers; rank < options_.ranks(); ++rank) {
    workers_.emplace(rank, Worker{});
    staleness_.add_worker(rank);
  }
}

void ParameterServer::attach(optim::Optimizer& optimizer) {
  shard_.emplace(shards_, 0, optimizer, links_.cores);
  for (const auto& [worker, memory] : links_.memories) shard_->see(worker, memory);
  for (int s = 1; s < options_.servers; ++s) peers_->of(s).expect_at_most(shard_->state_bytes(s));
}

datasets::BatchSource& ParameterServer::steps_of(const datasets::DataLoader& loader) {
  parts_.emplace(loader.samples(), loader.options().batch_size, options_.parts());
  const std::int64_t steps = options_.rule.synchronous() ? loader.batches() : parts_->size();
  steps_ = std::make_unique<OutlinedBatches>(steps, loader.samples(), [this](std::int64_t epoch, std::int64_t first) { begin_epoch(epoch, first); });
  return *steps_;
}

datasets::BatchSource& ParameterServer::evaluations_of(const datasets::DataLoader& loader) {
  evaluated_.emplace(loader.samples(), loader.options().batch_size, options_.parts());
  evaluations_ = std::make_unique<OutlinedBatches>(evaluated_->size(), loader.samples(), [this](std::int64_t, std::int64_t) { begin_evaluation(); });
  return *evaluations_;
}

// ---- what ranks say

/// Waits until no rank needs another but by messages, and gives all what the run begins with.
void ParameterServer::begin() {
  if (std::exchange(has_begun_, true)) return;
  std::vector<int> starting = peers_->ranks();
  while (!starting.empty()) {
    const parallel::ServerPeers::Event event = peers_->next();
    if (event.gone) fail_without(event.rank, event.why, *alarm_);
    parallel::require(event.delivery.message, event.rank, 1, 0);
    if (const Kind kind = event.delivery.message.kind; kind != Kind::ready)
      throw CommError(fmt::format("parameter server: rank {} sent '{}' in place of '{}'", event.rank, to_string(kind), to_string(Kind::ready)));
    shards_.require_same(event.rank, event.delivery.message.numbers[0]);
    std::erase(starting, event.rank);
  }
  may_lose_ = options_.begins && options_.begins();
  statistics_ = buffers_.read();
  const std::vector<std::byte> constants = constants_.read();
  for (const int rank : peers_->ranks()) {
    if (options_.is_server(rank)) {
      const auto [message, payload] = shard_->state(rank);
      send(rank, message, payload);
    } else {
      send(rank, {Kind::constants}, constants);
    }
  }
}

void ParameterServer::send(int rank, const ServerMessage& message, std::span<const std::byte> payload) {
  try {
    peers_->of(rank).send(message, payload);
  } catch (const PeerGone& e) {
    lose(rank, e.why());
  }
}

void ParameterServer::handle(const parallel::ServerPeers::Event& event) {
  if (event.gone) return lose(event.rank, event.why);
  const ServerMessage& said = event.delivery.message;
  if (options_.is_server(event.rank)) throw CommError(fmt::format("parameter server: server {} sent '{}' out of turn", event.rank, to_string(said.kind)));
  Worker& worker = workers_.at(event.rank);
  if (said.kind == Kind::want && worker.doing == Doing::starts)
    worker.doing = Doing::waits;
  else if (said.kind == Kind::gradients && worker.doing == Doing::trains)
    take_gradient(event.rank, event.delivery);
  else if (said.kind == Kind::result && worker.doing == Doing::evaluates)
    take_result(event.rank, event.delivery);
  else
    throw CommError(fmt::format("parameter server: rank {} sent '{}' out of turn", event.rank, to_string(said.kind)));
}

void ParameterServer::take_gradient(int rank, const ServerDelivery& delivery) {
  Worker& worker = workers_.at(rank);
  parallel::require(delivery.message, rank, 1, 4);
  const WorkerMemory* const memory = memory_of(rank);
  const std::int64_t number = *worker.number, shard = memory ? 0 : shard_->bytes();
  if (delivery.message.numbers[0] != number)
    throw CommError(fmt::format("parameter server: rank {} sent the gradient of part {}; accepted: {}", rank, delivery.message.numbers[0], number));
  if (std::ssize(delivery.payload) != shard + std::ssize(statistics_))
    throw CommError(
        fmt::format("parameter server: rank {} sent a gradient of {} bytes; accepted: {}", rank, delivery.payload.size(), shard + std::ssize(statistics_)));
  worker.number.reset();
  if (std::exchange(worker.is_late, false)) return drop(rank, number);  // others have its part
  worker.doing = Doing::has_trained;
  gradients_.push_back(
      {.worker = rank,
       .number = number,
       .reached = {delivery.message.numbers.begin() + 1, delivery.message.numbers.end()},
       .sums = checked_sums(delivery.message.reals, rank),
       .bytes = memory ? SlabShards::Bytes{memory->gradients(), SlabShards::Lies::among_all} : SlabShards::Bytes{delivery.payload.first(at(shard))},
       .statistics = delivery.payload.subspan(at(shard)),
       .read_statistics = worker.read_statistics,
       .statistics_version = worker.statistics_version});
}

void ParameterServer::take_result(int rank, const ServerDelivery& delivery) {
  Worker& worker = workers_.at(rank);
  parallel::require(delivery.message, rank, 2, 4);
  const std::int64_t number = *worker.number;
  worker.number.reset();
  worker.doing = Doing::waits;
  if (delivery.message.numbers[1] != evaluation_) return;  // of one that was cut short
  evaluated_->done(number);
  results_[number] = checked_sums(delivery.message.reals, rank);
}

/// Its gradients are as if they had never been: others compute them again.
void ParameterServer::lose(int rank, const std::string& why) {
  if (options_.is_server(rank) || !may_lose_) fail_without(rank, why, *alarm_);
  const Worker worker = workers_.at(rank);
  if (worker.number && worker.doing == Doing::trains && parts_ && !worker.is_late) parts_->give_back(*worker.number);
  if (worker.number && worker.doing == Doing::evaluates) evaluated_->give_back(*worker.number);
  for (const Gradient& g : gradients_)
    if (g.worker == rank && parts_) parts_->give_back(g.number);
  std::erase_if(gradients_, [rank](const Gradient& g) { return g.worker == rank; });
  staleness_.remove_worker(rank);
  workers_.erase(rank);
  peers_->drop(rank);
  shard_->forget(rank);
  links_.memories.erase(rank);
  tell_servers({Kind::lost, {rank}});
  if (options_.lost) options_.lost(rank, why);
  if (workers_.empty()) throw CommError("parameter server: every worker was lost");
}

void ParameterServer::tell_servers(const ServerMessage& message) {
  for (int s = 1; s < options_.servers; ++s) send(s, message);
}

// ---- what workers are told

std::vector<int> ParameterServer::waiting() const {
  std::vector<int> out;
  for (const auto& [rank, worker] : workers_)
    if (worker.doing == Doing::waits) out.push_back(rank);
  std::ranges::stable_sort(out, {}, [this](int rank) { return staleness_.steps_of(rank); });
  return out;
}

std::int64_t ParameterServer::under_way() const {
  return std::ssize(gradients_) + std::ranges::count_if(workers_, [](const auto& one) { return one.second.doing == Doing::trains && !one.second.is_late; });
}

std::int64_t ParameterServer::needed() const { return options_.rule.synchronous() ? std::min<std::int64_t>(options_.parts(), left_) : 1; }

bool ParameterServer::may_hand_out() const {
  if (parts_ && !parts_->any_free()) return false;
  if (options_.rule.synchronous()) return under_way() < needed() + options_.rule.backup;
  return true;
}

void ParameterServer::grant_training() {
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    std::vector<int> ready = waiting();
    if (options_.rule.synchronous())  // where there are fewer workers than parts, of a loss, each computes several
      for (const auto& [rank, worker] : workers_)
        if (worker.doing == Doing::has_trained && std::ssize(workers_) < options_.parts()) ready.push_back(rank);
    for (const int rank : ready) {
      if (!may_hand_out()) return;
      if (!staleness_.may_read(rank)) continue;
      send_order(rank, Doing::trains, parts_ ? *parts_->take() : handed_++);
      goes_on = workers_.contains(rank) ? goes_on : true;
    }
  }
}

void ParameterServer::grant_evaluation() {
  for (const int rank : waiting()) {
    const auto number = evaluated_->take();
    if (!number) return;
    send_order(rank, Doing::evaluates, *number);
  }
}

void ParameterServer::send_order(int rank, Doing what, std::int64_t number) {
  Worker& worker = workers_.at(rank);
  const bool trains = what == Doing::trains, reads = trains || worker.has_read != staleness_.version();
  const auto& parts = trains ? parts_ : evaluated_;
  const parallel::BatchPart part = parts ? parts->part(number) : parallel::BatchPart{};
  const std::int64_t step = trains && parts_ && !options_.rule.synchronous() ? epoch_ * parts_->size() + number + 1 : step_;
  if (trains) staleness_.read(rank);
  worker.doing = what;
  worker.number = number;
  try {
    peers_->of(rank).send({Kind::batch, {trains, reads, epoch_, part.batch, part.part, step, number, evaluation_}});
    if (!reads) return;
    keep_gradients_of(rank);
    tell_servers({Kind::send, {rank}});
    send_parameters(rank);
    if (trains && workers_.contains(rank)) workers_.at(rank).has_read.reset();  // its own running statistics move on
  } catch (const PeerGone& e) {
    if (e.rank() != rank) throw;
    lose(rank, e.why());
  }
}

void ParameterServer::send_parameters(int rank) {
  Worker& worker = workers_.at(rank);
  const WorkerMemory* const memory = memory_of(rank);
  outbox_.resize(memory ? 0 : at(shard_->bytes()));
  memory ? shard_->read(memory->parameters(), SlabShards::Lies::among_all) : shard_->read(outbox_);
  outbox_.insert(outbox_.end(), statistics_.begin(), statistics_.end());
  worker.has_read = staleness_.version();
  worker.read_statistics = statistics_;
  worker.statistics_version = statistics_version_;
  peers_->of(rank).send({Kind::parameters}, outbox_);
}

const WorkerMemory* ParameterServer::memory_of(int worker) const {
  const auto found = links_.memories.find(worker);
  return found == links_.memories.end() ? nullptr : &found->second;
}

/// It is about to write another gradient where these are.
void ParameterServer::keep_gradients_of(int worker) {
  for (Gradient& g : gradients_) {
    if (g.worker != worker || !g.own.empty()) continue;
    g.own.assign(g.bytes.bytes.begin(), g.bytes.bytes.end());
    g.bytes.bytes = g.own;
    g.own_statistics.assign(g.statistics.begin(), g.statistics.end());
    g.statistics = g.own_statistics;
  }
}

void ParameterServer::drop(int rank, std::int64_t number) {
  if (staleness_.is_under_way(rank)) staleness_.drop(rank);
  tell_servers({Kind::drop, {rank, number}});
  workers_.at(rank).doing = Doing::waits;
}

/// Until no gradient is under way. Those that come are not used.
void ParameterServer::recall() {
  const auto trains = [](const auto& one) { return one.second.doing == Doing::trains; };
  while (std::ranges::any_of(workers_, trains)) handle(peers_->next());
  for (const Gradient& g : std::exchange(gradients_, {})) {
    if (parts_) parts_->give_back(g.number);
    drop(g.worker, g.number);
  }
}

// ---- a run

void ParameterServer::begin_epoch(std::int64_t epoch, std::int64_t first_step) {
  begin();
  recall();
  epoch_ = epoch;
  const std::int64_t done = std::min(options_.rule.synchronous() ? first_step * options_.parts() : first_step, parts_->size());
  parts_->start(done, std::exchange(missing_, {}));
  left_ = parts_->size() - done;
  staleness_.begin_epoch();
}

void ParameterServer::begin_evaluation() {
  begin();
  recall();
  ++evaluation_;
  evaluated_->start();
  results_.clear();
}

train::Pending ParameterServer::evaluate(const datasets::Batch& batch) {
  grant_evaluation();
  return train::Pending([this, number = batch.index] {
    while (!results_.contains(number)) {
      grant_evaluation();
      handle(peers_->next());
    }
    return results_.at(number);
  });
}

void ParameterServer::gather() {
  if (!has_begun_) return;
  buffers_.write(statistics_);
  for (int s = 1; s < options_.servers; ++s) {
    try {
      peers_->of(s).send({Kind::get_state});
      const ServerDelivery state = peers_->of(s).receive(Kind::state);
      shard_->set_state(s, state.message, state.payload);
    } catch (const PeerGone& e) {
      fail_without(s, e.why(), *alarm_);
    }
  }
}

train::RanksState ParameterServer::state() {
  gather();
  train::RanksState out;
  if (parts_) train::put_missing_parts(out, parts_->missing(), parts_of_batch());
  return out;
}

void ParameterServer::join_state(nn::Module&, optim::Optimizer&, train::RunState& state) { missing_ = train::missing_parts_in(state.ranks, parts_of_batch()); }

void ParameterServer::end() {
  begin();
  recall();
  for (const int rank : peers_->ranks()) {
    try {
      peers_->of(rank).send({Kind::end});
    } catch (const PeerGone&) {
      // It was lost at the end: nothing of it is needed any more.
    }
  }
}

}  // namespace gemel::distributed
