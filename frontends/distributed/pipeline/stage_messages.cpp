#include "frontends/distributed/pipeline/stage_messages.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "frontends/distributed/exposed_communication.h"

namespace gemel::distributed {

using parallel::Action;
using parallel::Collectives;
using parallel::Transfer;

/// Transfers live and end in the communication thread.
struct StageMessages::Incoming {
  Specs specs;
  std::vector<std::shared_ptr<std::vector<std::byte>>> bytes;
  std::vector<Transfer> transfers;
};

struct StageMessages::Outgoing {
  std::vector<HostView> views;
  std::vector<Transfer> transfers;  // of the views' bytes, so they end first
};

namespace {

/// The same message at its other end.
Action other_end(const parallel::Schedule& schedule, const Action& message) {
  const auto kind = [&] {
    switch (message.kind) {
      case Action::Kind::send_activation:
        return Action::Kind::receive_activation;
      case Action::Kind::receive_activation:
        return Action::Kind::send_activation;
      case Action::Kind::send_gradient:
        return Action::Kind::receive_gradient;
      case Action::Kind::receive_gradient:
        return Action::Kind::send_gradient;
      default:
        throw InternalError("pipeline: " + to_string(message) + " is no message");
    }
  }();
  return {kind, schedule.other_piece(message), message.micro_batch};
}

}  // namespace

StageMessages::StageMessages(Session& session, parallel::CommunicationThread& communication, const parallel::Schedule& schedule, int first_rank)
    : session_(session), communication_(communication), schedule_(schedule), first_rank_(first_rank) {}

StageMessages::~StageMessages() {
  // What a job holds ends in the communication thread, once it has run: the second one says that the first one's has.
  std::vector<std::shared_ptr<Outgoing>> outgoing;
  for (Sent& s : sent_) outgoing.push_back(std::move(s.message));
  communication_.submit([outgoing = std::move(outgoing), expected = std::move(expected_)](Collectives&) {});
  communication_.submit([](Collectives&) {}).wait();
}

std::size_t StageMessages::place(int stage, const Action& action) const {
  const auto& actions = schedule_.actions[at(stage)];
  return at(std::ranges::find(actions, action) - actions.begin());
}

void StageMessages::expect(const Action& receive, const Specs& specs) {
  const auto message = std::make_shared<Incoming>(Incoming{specs, {}, {}});
  for (const Spec& spec : specs) message->bytes.push_back(std::make_shared<std::vector<std::byte>>(at(spec.bytes())));
  expected_[schedule_.tag(receive)].push_back(message);
  communication_.submit([message, from = first_rank_ + schedule_.peer(receive), tag = schedule_.tag(receive)](Collectives& c) {
    for (const auto& bytes : message->bytes) message->transfers.push_back(c.communicator().receive(from, *bytes, tag));
  });
}

Values StageMessages::take(const Action& receive) {
  auto& waiting = expected_[schedule_.tag(receive)];
  const std::shared_ptr<Incoming> message = waiting.front();
  exposed_s_ += exposed_seconds(session_, [&] {
    spans_.push_back(communication_.run([message, name = to_string(receive)](Collectives&) {
      const std::int64_t begin = steady_ns();
      for (Transfer& t : message->transfers) t.wait();
      std::int64_t bytes = 0;
      for (const Spec& spec : message->specs) bytes += spec.bytes();
      return parallel::Span{name, begin, steady_ns(), bytes};
    }));
  });
  waiting.pop_front();
  Values out;
  for (std::size_t i = 0; i < message->specs.size(); ++i)
    out.push_back(session_.tensor(message->specs[i], std::shared_ptr<const std::vector<std::byte>>(message->bytes[i])));
  const int from = schedule_.peer(receive);
  const std::size_t said_at = place(from, other_end(schedule_, receive));
  for (Sent& s : sent_)
    if (s.to == from && s.received_at < said_at) wait_for(s);
  drop_arrived();
  return out;
}

void StageMessages::send(const Action& send, Values values) {
  const int to = schedule_.peer(send);
  const auto message = std::make_shared<Outgoing>();
  communication_.submit([message, values, to = first_rank_ + to, tag = schedule_.tag(send), computed = mark(session_)](Collectives& c) {
    for (const Value& v : values) message->views.push_back(map(v, Access::read, computed));
    for (const HostView& view : message->views) message->transfers.push_back(c.communicator().send(to, view.bytes(), tag));
  });
  sent_.push_back({message, std::move(values), to, place(to, other_end(schedule_, send)), {}});
}

void StageMessages::wait_for(Sent& sent) {
  if (sent.arrived.valid()) return;
  sent.arrived = communication_.submit([message = sent.message](Collectives&) {
    for (Transfer& t : message->transfers) t.wait();
    message->transfers.clear();
    message->views.clear();
  });
}

void StageMessages::drop_arrived() {
  using namespace std::chrono_literals;
  std::erase_if(sent_, [](const Sent& s) { return s.arrived.valid() && s.arrived.wait_for(0s) == std::future_status::ready; });
}

void StageMessages::finish() {
  for (Sent& s : sent_) wait_for(s);
  exposed_s_ += exposed_seconds(session_, [&] {
    for (Sent& s : sent_) s.arrived.get();
  });
  sent_.clear();
}

}  // namespace gemel::distributed
