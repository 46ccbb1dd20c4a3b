#include "frontends/distributed/parameter_server/shard_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"

namespace gemel::distributed {

using parallel::PeerGone;
using parallel::ServerDelivery;
using parallel::ServerMessage;
using Kind = ServerMessage::Kind;

ShardServer::ShardServer(Session& session, train::Task& task, const Specs& batch, const ServerMeans& means, ParameterServerOptions options)
    : rank_(means.communication.rank()), alarm_(means.alarm), options_(std::move(options)), shards_(session, task, batch, options_.servers) {
  const std::int64_t shard = shards_.bytes(rank_);
  links_ = link_servers(means.communication, *alarm_, options_, {.takes = shard, .pages = shards_.pages(), .computes_on_host = computes_on_host(session)});
  peers_.emplace(std::move(links_.connections), *alarm_);
  // Only server 0 hears from the failure detector. A worker that stops amid a message would hold this server for ever.
  for (const int rank : peers_->ranks())
    if (!options_.is_server(rank)) peers_->of(rank).heed(peers_->of(0).descriptor(), [this] { hear(); });
}

void ShardServer::attach(optim::Optimizer& optimizer) {
  shard_.emplace(shards_, rank_, optimizer, links_.cores);
  for (const auto& [worker, memory] : links_.memories) shard_->see(worker, memory);
  peers_->of(0).expect_at_most(shard_->state_bytes(rank_));
}

void ShardServer::serve() {
  if (!std::exchange(has_begun_, true)) tell({Kind::ready, {static_cast<std::int64_t>(shards_.fingerprint())}});
  for (bool goes_on = true; goes_on;) {
    if (!heard_.empty()) {
      const Order order = std::move(heard_.front());
      heard_.pop_front();
      goes_on = carry_out({order.message, order.payload});
      continue;
    }
    const parallel::ServerPeers::Event event = peers_->next();
    if (event.gone && event.rank == 0) fail_without(0, event.why, *alarm_);
    if (event.gone)
      leave(event.rank);  // server 0 says what becomes of it
    else if (event.rank == 0)
      goes_on = carry_out(event.delivery);
    else
      keep(event.rank, event.delivery);
  }
}

/// An order of server 0 while a worker is waited for. Where it is that a worker is lost, what is on its way from it may still come, and an earlier order may
/// want it.
void ShardServer::hear() {
  constexpr double kOnItsWay = 2;  // seconds
  try {
    const ServerDelivery order = peers_->of(0).receive();
    heard_.push_back({order.message, {order.payload.begin(), order.payload.end()}});
  } catch (const PeerGone& e) {
    fail_without(0, e.why(), *alarm_);
  }
  const ServerMessage& said = heard_.back().message;
  if (said.kind != Kind::lost) return;
  parallel::require(said, 0, 1, 0);
  if (const auto worker = static_cast<int>(said.numbers[0]); peers_->has(worker)) peers_->of(worker).limit_silence(kOnItsWay);
}

train::Pending ShardServer::train(const datasets::Batch&, double, std::int64_t, std::optional<double>) {
  serve();
  return train::Pending([] { return train::Sums(); });
}

bool ShardServer::carry_out(const ServerDelivery& order) {
  const ServerMessage& said = order.message;
  if (said.kind == Kind::drop) parallel::require(said, 0, 2, 0);
  if (said.kind == Kind::send || said.kind == Kind::lost) parallel::require(said, 0, 1, 0);
  switch (said.kind) {
    case Kind::update:
      update(said);
      return true;
    case Kind::drop:
      take(static_cast<int>(said.numbers[0]), said.numbers[1]);
      return true;
    case Kind::send:
      send(static_cast<int>(said.numbers[0]));
      return true;
    case Kind::lost:
      lose(static_cast<int>(said.numbers[0]));
      return true;
    case Kind::get_state: {
      const auto [message, payload] = shard_->state(rank_);
      tell(message, payload);
      return true;
    }
    case Kind::state:
      shard_->set_state(rank_, said, order.payload);
      return true;
    case Kind::end:
      return false;
    default:
      throw CommError(fmt::format("parameter server: server 0 sent '{}' to another server", to_string(said.kind)));
  }
}

void ShardServer::keep(int worker, const ServerDelivery& delivery) {
  const ServerMessage& said = delivery.message;
  parallel::require(said, worker, 1, 0);
  if (said.kind == Kind::ready) return shards_.require_same(worker, said.numbers[0]);
  const WorkerMemory* const memory = memory_of(worker);
  const std::int64_t expected = memory ? 0 : shard_->bytes();
  if (said.kind != Kind::gradients || std::ssize(delivery.payload) != expected)
    throw CommError(fmt::format("parameter server: rank {} sent '{}' of {} bytes; accepted: '{}' of {}", worker, to_string(said.kind), delivery.payload.size(),
                                to_string(Kind::gradients), expected));
  gradients_[worker].push_back({.number = said.numbers[0],
                                .reached = {said.numbers.begin() + 1, said.numbers.end()},
                                .bytes = memory ? SlabShards::Bytes{memory->gradients(), SlabShards::Lies::among_all} : SlabShards::Bytes{delivery.payload}});
}

/// The worker sent it before server 0 was told of it. Of several of one part, which were computed again, server 0 speaks of the earliest.
ShardServer::Gradient ShardServer::take(int worker, std::int64_t number) {
  std::deque<Gradient>& own = gradients_[worker];
  auto found = own.end();
  try {
    while ((found = std::ranges::find(own, number, &Gradient::number)) == own.end()) {
      if (!peers_->has(worker)) throw PeerGone(worker, "was lost before all of its gradient came");
      keep(worker, peers_->of(worker).receive());
    }
  } catch (const PeerGone& e) {
    fail_without(worker, e.why(), *alarm_);
  }
  Gradient out = std::move(*found);
  own.erase(found);
  return out;
}

void ShardServer::update(const ServerMessage& order) {
  const std::size_t count = order.numbers.size() / 2;
  parallel::require(order, 0, 2, count + 1);
  std::vector<Gradient> gradients;
  std::vector<ServedShard::Part> parts;
  ReachedParameters reached;
  for (std::size_t i = 0; i < count; ++i) gradients.push_back(take(static_cast<int>(order.numbers[2 * i]), order.numbers[2 * i + 1]));
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back({static_cast<int>(order.numbers[2 * i]), gradients[i].bytes, order.reals[i + 1]});
    reached.resize(std::max(reached.size(), gradients[i].reached.size()), 0);
    for (std::size_t k = 0; k < gradients[i].reached.size(); ++k) reached[k] |= gradients[i].reached[k];
  }
  if (options_.progress) options_.progress("updates");
  shard_->update(parts, reached, order.reals[0]);
}

void ShardServer::send(int worker) {
  own_gradients_of(worker);  // it is about to write another one where these are
  if (!peers_->has(worker)) return;
  const WorkerMemory* const memory = memory_of(worker);
  outbox_.resize(memory ? 0 : at(shard_->bytes()));
  memory ? shard_->read(memory->parameters(), SlabShards::Lies::among_all) : shard_->read(outbox_);
  try {
    peers_->of(worker).send({Kind::parameters}, outbox_);
  } catch (const PeerGone&) {
    leave(worker);
  }
}

void ShardServer::own_gradients_of(int worker) {
  for (Gradient& g : gradients_[worker]) {
    if (!g.own.empty()) continue;
    g.own.assign(g.bytes.bytes.begin(), g.bytes.bytes.end());
    g.bytes.bytes = g.own;
  }
}

/// Its gradients lie in memory of the connection, and server 0 may still order their update.
void ShardServer::leave(int worker) {
  own_gradients_of(worker);
  peers_->drop(worker);
}

void ShardServer::lose(int worker) {
  gradients_.erase(worker);
  if (peers_->has(worker)) peers_->drop(worker);
  shard_->forget(worker);
  links_.memories.erase(worker);
}

const WorkerMemory* ShardServer::memory_of(int worker) const {
  const auto found = links_.memories.find(worker);
  return found == links_.memories.end() ? nullptr : &found->second;
}

void ShardServer::tell(const ServerMessage& message, std::span<const std::byte> payload) {
  try {
    peers_->of(0).send(message, payload);
  } catch (const PeerGone& e) {
    fail_without(0, e.why(), *alarm_);
  }
}

}  // namespace gemel::distributed
