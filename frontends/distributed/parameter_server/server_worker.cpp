#include "frontends/distributed/parameter_server/server_worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "engine/ops/ops.h"
#include "frontends/distributed/notices.h"
#include "frontends/distributed/parameter_server/run_outlines.h"
#include "parallel/ddp/gradient_memory.h"

namespace gemel::distributed {

using parallel::PeerGone;
using parallel::ServerDelivery;
using parallel::ServerMessage;
using Kind = ServerMessage::Kind;
using What = SlabShards::What;

namespace {

WorkerMemory memory_over(const parallel::SharedRegion* region, std::int64_t pages) { return region ? WorkerMemory(region->memory(), pages) : WorkerMemory(); }

}  // namespace

ServerWorker::ServerWorker(Session& session, train::Task& task, const Specs& batch, const ServerMeans& means, ParameterServerOptions options)
    : session_(session),
      task_(task),
      rank_(means.communication.rank()),
      alarm_(means.alarm),
      options_(std::move(options)),
      region_(parallel::SharedRegion::make(WorkerMemory::bytes_for(SlabShards::pages(task)))),
      memory_(memory_over(region_.get(), SlabShards::pages(task))),
      computes_there_(region_ && parallel::computes_in_place(session, region_->memory())),
      shards_(session, task, batch, options_.servers, memory_of_slabs()),
      buffers_(values_of(task.module().parameters().buffers())),
      constants_(values_of(untrained(task.module()))) {
  std::int64_t largest = constants_.bytes();
  for (int s = 0; s < options_.servers; ++s) largest = std::max(largest, shards_.bytes(s) + buffers_.bytes());
  links_ = link_servers(means.communication, *alarm_, options_,
                        {.takes = largest, .pages = shards_.pages(), .region = region_.get(), .computes_on_host = computes_on_host(session)});
  links_.cores.move_to(rank_);
}

PackOptions ServerWorker::memory_of_slabs() const {
  return computes_there_ ? PackOptions{.gradients = memory_.for_gradients(), .parameters = memory_.for_parameters()} : PackOptions();
}

/// The optimizer's own state would be memory for nothing.
void ServerWorker::attach(const optim::Optimizer& optimizer, const train::StepOptions& step) {
  optimizer_ = std::make_unique<optim::Sgd>(optimizer.groups());
  reached_.assign(optimizer_->parameters().size(), false);
  train::StepOptions own = step;
  own.ranks = this;
  step_.emplace(session_, task_, optimizer_.get(), own);
}

void ServerWorker::join_gradients(Values& gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i) reached_[i] = static_cast<bool>(gradients[i]);
  if (clip_norm_) optimizer_->clip_norm(gradients, *clip_norm_);
  // Where a parameter's gradient was computed elsewhere it is brought to its place, from which it is sent. A place that this step does not reach is sent, too,
  // and another worker may reach it: it must not hold the gradient of an earlier step.
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Value place = dense_gradient_place(optimizer_->parameters()[i].value);
    Value from = gradients[i] ? gradients[i].detached() : full(session_, place.spec(), 0);
    if (from.storage() != place.storage()) apply(copy_def(), list(std::move(from)), {}, std::span(&place, 1));
  }
}

ServerDelivery ServerWorker::receive(int server, Kind kind) {
  try {
    return to(server).receive(kind);
  } catch (const PeerGone& e) {
    fail_without(e.rank(), e.why(), *alarm_);
  }
}

void ServerWorker::send(int server, const ServerMessage& message, std::span<const std::byte> payload) {
  try {
    to(server).send(message, payload);
  } catch (const PeerGone& e) {
    fail_without(server, e.why(), *alarm_);
  }
}

void ServerWorker::ask() {
  if (std::exchange(has_asked_, true)) return;
  const auto fingerprint = static_cast<std::int64_t>(shards_.fingerprint());
  for (int s = options_.servers; s-- > 0;) send(s, {Kind::ready, {fingerprint}});
  constants_.write(receive(0, Kind::constants).payload);
  send(0, {Kind::want});
}

std::optional<ServerWorker::Order> ServerWorker::next_order() {
  try {
    const ServerDelivery said = to(0).receive();
    if (said.message.kind == Kind::end) return std::nullopt;
    if (said.message.kind != Kind::batch) throw CommError(fmt::format("parameter server: server 0 sent '{}' to a worker", to_string(said.message.kind)));
    parallel::require(said.message, 0, 8, 0);
    const std::vector<std::int64_t>& n = said.message.numbers;
    const Order order{n[0] != 0, n[1] != 0, n[2], n[3], n[4], n[5], n[6], n[7]};
    if (order.reads) read_parameters();
    return order;
  } catch (const PeerGone& e) {
    fail_without(e.rank(), e.why(), *alarm_);
  }
}

void ServerWorker::read_parameters() {
  for (int s = 0; s < options_.servers; ++s) {
    const std::span<const std::byte> all = receive(s, Kind::parameters).payload;
    const std::int64_t shard = is_seen_by(s) ? 0 : shards_.bytes(s), expected = shard + (s == 0 ? buffers_.bytes() : 0);
    if (std::ssize(all) != expected)
      throw CommError(fmt::format("parameter server: server {} sent {} bytes of parameters; accepted: {}", s, all.size(), expected));
    if (!is_seen_by(s))
      shards_.write(s, What::parameters, {all.first(at(shard))});
    else if (computes_there_)
      shards_.count_as_written(s, What::parameters);
    else
      shards_.write(s, What::parameters, {memory_.parameters(), SlabShards::Lies::among_all});
    if (s == 0) read_buffers_.assign(all.begin() + shard, all.end());
  }
  buffers_.write(read_buffers_);
}

/// Server 0 is told last: what it knows of, the others have.
void ServerWorker::push(const Order& order, const train::Sums& sums) {
  ServerMessage message{Kind::gradients, {order.number}};
  const ReachedParameters reached = packed(reached_);
  message.numbers.insert(message.numbers.end(), reached.begin(), reached.end());
  mark(session_).wait();
  for (int i = 1; i <= options_.servers; ++i) {
    const int server = i % options_.servers;
    outbox_.resize(is_seen_by(server) ? 0 : at(shards_.bytes(server)));
    if (!is_seen_by(server))
      shards_.read(server, What::gradients, outbox_);
    else if (!computes_there_)
      shards_.read(server, What::gradients, memory_.gradients(), SlabShards::Lies::among_all);
    if (server == 0) {
      const std::vector<std::byte> buffers = buffers_.read();
      outbox_.insert(outbox_.end(), buffers.begin(), buffers.end());
      put(message.reals, sums);
    }
    send(server, message, outbox_);
  }
}

void ServerWorker::work(datasets::DataLoader& training, datasets::DataLoader* validation) {
  ask();
  while (const auto order = next_order()) {
    if (options_.progress) options_.progress(fmt::format("step {}", order->step));
    if (order->trains) {
      push(*order, step_->train(training.shard(order->epoch, order->batch, static_cast<int>(order->part)), 0, order->step).get());
      continue;
    }
    if (!validation) throw CommError("parameter server: server 0 asks for an evaluation, and there is no data for it");
    ServerMessage message{Kind::result, {order->number, order->evaluation}};
    put(message.reals, step_->evaluate(validation->shard(order->epoch, order->batch, static_cast<int>(order->part))).get());
    send(0, message);
  }
}

void ServerWorker::repeat(const std::function<train::Pending(const Order&)>& step) {
  ask();
  while (const auto order = next_order()) push(*order, step(*order).get());
}

train::Pending ServerWorker::train(const datasets::Batch& batch, double rate, std::int64_t, std::optional<double>) {
  repeat([&](const Order& order) { return step_->train(batch, rate, order.step); });
  return train::Pending([] { return train::Sums(); });
}

train::Pending ServerWorker::train(const train::DeviceBatch& batch, double rate, std::int64_t, std::optional<double>) {
  repeat([&](const Order& order) { return step_->train(batch, rate, order.step); });
  return train::Pending([] { return train::Sums(); });
}

}  // namespace gemel::distributed
