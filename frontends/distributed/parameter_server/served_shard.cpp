#include "frontends/distributed/parameter_server/served_shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "parallel/ddp/gradient_memory.h"
#include "parallel/parameter_server/shared_region.h"
#include "parallel/parameter_server/weighted_sum.h"

namespace gemel::distributed {

using parallel::ServerMessage;

ReachedParameters packed(const std::vector<bool>& reached) {
  ReachedParameters out((reached.size() + 63) / 64, 0);
  for (std::size_t i = 0; i < reached.size(); ++i)
    if (reached[i]) out[i / 64] = static_cast<std::int64_t>(static_cast<std::uint64_t>(out[i / 64]) | std::uint64_t{1} << (i % 64));
  return out;
}

bool reaches(const ReachedParameters& reached, std::size_t i) {
  return i / 64 < reached.size() && (static_cast<std::uint64_t>(reached[i / 64]) >> (i % 64) & 1);
}

ServedShard::ServedShard(const SlabShards& shards, int server, optim::Optimizer& optimizer, parallel::WorkerCores cores)
    : shards_(shards), server_(server), optimizer_(optimizer), cores_(std::move(cores)), numbers_(at(shards.servers())) {
  for (std::size_t i = 0; i < optimizer.parameters().size(); ++i) numbers_[at(shards.server_of(optimizer.parameters()[i].value))].push_back(i);
}

void ServedShard::see(int worker, const WorkerMemory& memory) {
  Session& session = shards_.slabs()[0]->parameters().whole().session();
  if (!computes_in_place_) {  // in memory of its own, for other servers look at the worker's, too
    const auto like_it = parallel::SharedRegion::make(kHostPage);
    computes_in_place_ = like_it && parallel::computes_in_place(session, like_it->memory());
  }
  if (!*computes_in_place_) return;
  Seen seen{memory.gradients().data(), {}};
  const HostMemorySource source = memory.for_gradients();
  for (const auto& slab : shards_.slabs()) seen.slabs.emplace_back(session, specs_of(slab->parameters().parts()), "gradients of a worker", source);
  mark(session).wait();  // they are filled with zeros, which must not come behind what the worker writes
  seen_.emplace(worker, std::move(seen));
}

/// The gradients are a worker's, as long as this lives.
class ServedShard::OfWorker {
 public:
  OfWorker(const SlabShards& shards, Seen& seen) : shards_(shards), seen_(seen) { exchange(); }
  ~OfWorker() { exchange(); }
  OfWorker(const OfWorker&) = delete;
  OfWorker& operator=(const OfWorker&) = delete;

 private:
  void exchange() {
    for (std::size_t i = 0; i < seen_.slabs.size(); ++i) seen_.slabs[i] = shards_.slabs()[i]->exchange_gradients(std::move(seen_.slabs[i]));
  }
  const SlabShards& shards_;
  Seen& seen_;
};

void ServedShard::update(std::span<const Part> parts, const ReachedParameters& reached, double rate) {
  parts.size() == 1 ? cores_.move_to(parts[0].worker) : cores_.move_to_all();  // of those that wait for it
  const auto seen = seen_.find(parts[0].worker);
  if (parts.size() == 1 && seen != seen_.end() && seen->second.first == parts[0].gradient.bytes.data()) {
    const OfWorker gradients(shards_, seen->second);
    return apply(reached, rate);
  }
  if (parts.size() == 1) {  // as it is
    shards_.write(server_, SlabShards::What::gradients, parts[0].gradient);
  } else {
    shards_.write(server_, SlabShards::What::gradients, [&](std::span<std::byte> bytes, const SlabShards::Place& place) {
      const std::span sum(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
      for (std::size_t i = 0; i < parts.size(); ++i)
        parallel::add_weighted(sum, parts[i].gradient.bytes.subspan(place.in(parts[i].gradient.lies), bytes.size()), static_cast<float>(parts[i].weight),
                               i == 0 ? parallel::Sum::begins : parallel::Sum::goes_on);
    });
  }
  apply(reached, rate);
}

void ServedShard::apply(const ReachedParameters& reached, double rate) {
  Values gradients(optimizer_.parameters().size());
  for (const std::size_t i : numbers_[at(server_)])
    if (reaches(reached, i)) gradients[i] = dense_gradient_place(optimizer_.parameters()[i].value);
  optimizer_.apply_updates(std::move(gradients), optimizer_.hyper(rate));
  optimizer_.advance();
}

void ServedShard::count_others(const ReachedParameters& reached) {
  for (int server = 0; server < shards_.servers(); ++server)
    for (const std::size_t i : numbers_[at(server)])
      if (server != server_ && reaches(reached, i)) ++optimizer_.hyperparameters()->rows[i].steps;
}

std::int64_t ServedShard::state_bytes(int server) const {
  std::int64_t sum = shards_.bytes(server);
  for (const std::size_t i : numbers_[at(server)])
    sum += std::ssize(optimizer_.state()) / std::ssize(optimizer_.parameters()) * optimizer_.parameters()[i].value.spec().bytes();
  return sum;
}

std::pair<ServerMessage, std::vector<std::byte>> ServedShard::state(int server) const {
  ServerMessage message{ServerMessage::Kind::state, {optimizer_.steps()}};
  std::vector<std::byte> payload(at(shards_.bytes(server)));
  shards_.read(server, SlabShards::What::parameters, payload);
  for (const std::size_t i : numbers_[at(server)]) {
    message.numbers.push_back(optimizer_.hyperparameters()->rows[i].steps);
    for (std::size_t s = 0; s < optimizer_.slots(); ++s) {
      const std::vector<std::byte> slot = read_bytes(optimizer_.state()[i * optimizer_.slots() + s].value);
      payload.insert(payload.end(), slot.begin(), slot.end());
    }
  }
  return {std::move(message), std::move(payload)};
}

void ServedShard::set_state(int server, const ServerMessage& message, std::span<const std::byte> payload) {
  const std::vector<std::size_t>& own = numbers_[at(server)];
  if (message.numbers.size() != own.size() + 1 || std::ssize(payload) != state_bytes(server))
    throw CommError(fmt::format("parameter server: a state has {} numbers and {} bytes; accepted: {} and {}", message.numbers.size(), payload.size(),
                                own.size() + 1, state_bytes(server)));
  shards_.write(server, SlabShards::What::parameters, {payload.first(at(shards_.bytes(server)))});
  payload = payload.subspan(at(shards_.bytes(server)));
  optimizer_.hyperparameters()->steps = message.numbers[0];
  for (std::size_t k = 0; k < own.size(); ++k) {
    optimizer_.hyperparameters()->rows[own[k]].steps = message.numbers[k + 1];
    for (std::size_t s = 0; s < optimizer_.slots(); ++s) {
      const Value& slot = optimizer_.state()[own[k] * optimizer_.slots() + s].value;
      write(slot, payload.first(at(slot.spec().bytes())));
      payload = payload.subspan(at(slot.spec().bytes()));
    }
  }
}

}  // namespace gemel::distributed
