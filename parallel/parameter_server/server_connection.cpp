#include "parallel/parameter_server/server_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <random>

#include "engine/base/files/file.h"
#include "engine/base/numbers.h"
#include "parallel/transport/spin_wait.h"

namespace gemel::parallel {

PeerGone::PeerGone(int rank, const std::string& why) : CommError(fmt::format("parameter server: rank {} {}", rank, why)), rank_(rank), why_(why) {}

ServerAlarm::ServerAlarm() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_.get() < 0) throw CommError("parameter server: the system gives no more files: " + system_message(errno));
}

void ServerAlarm::ring() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

void ServerAlarm::abort(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) aborted_ = why;
  }
  ring();
}

void ServerAlarm::lose(int rank, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    lost_.emplace(rank, why);
  }
  ring();
}

void ServerAlarm::check() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(event_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  if (aborted_) throw AbortedError(*aborted_);
}

std::optional<std::string> ServerAlarm::loss_of(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = lost_.find(rank);
  return found == lost_.end() ? std::nullopt : std::optional(found->second);
}

std::map<int, std::string> ServerAlarm::losses() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void ServerAlarm::wait_for_abort(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (;;) {
    check();
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return;
    pollfd on{event_.get(), POLLIN, 0};
    ::poll(&on, 1, static_cast<int>(left));
  }
}

ServerConnection::ServerConnection(Descriptor socket, int rank, ServerAlarm& alarm) : socket_(std::move(socket)), rank_(rank), alarm_(alarm) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

void ServerConnection::gone(const std::string& why) {
  alarm_.check();
  throw PeerGone(rank_, alarm_.loss_of(rank_).value_or(why));
}

void ServerConnection::wait(short events) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  for (;;) {
    alarm_.check();
    if (const auto why = alarm_.loss_of(rank_)) throw PeerGone(rank_, *why);
    int timeout = -1;
    if (silence_s_ > 0) {
      const auto left = begin + std::chrono::duration<double>(silence_s_) - Clock::now();
      timeout = static_cast<int>(std::clamp<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 0, std::numeric_limits<int>::max()));
      if (timeout == 0) gone(fmt::format("has been silent for {:g} s", silence_s_));
    }
    pollfd on[] = {{socket_.get(), events, 0}, {alarm_.descriptor(), POLLIN, 0}, {heeded_.descriptor, POLLIN, 0}};
    if (::poll(on, 3, timeout) < 0 && errno != EINTR) gone("was lost: " + system_message(errno));
    if (on[0].revents != 0) return;
    if (on[2].revents == 0) continue;
    heeded_.hear();
    begin = Clock::now();
  }
}

void ServerConnection::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0)
      bytes = bytes.subspan(at(n));
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      wait(POLLOUT);
    else if (errno != EINTR)
      gone("was lost: its connection closed");
  }
}

void ServerConnection::read(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (n > 0)
      bytes = bytes.subspan(at(n));
    else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      wait(POLLIN);
    else if (n == 0 || errno != EINTR)
      gone("was lost: its connection closed");
  }
}

void ServerConnection::send(const ServerMessage& message, std::span<const std::byte> payload) {
  write(server_frame(message, payload.size()));
  write(payload);
}

ServerDelivery ServerConnection::receive() {
  std::array<std::byte, ServerHead::kBytes> bytes{};
  read(bytes);
  const auto head = parse_server_head(bytes, static_cast<std::uint64_t>(most_));
  if (!head) throw CommError(fmt::format("parameter server: rank {} sent what is no message", rank_));
  body_.resize(head->body_bytes());
  read(body_);
  payload_.resize(head->payload);
  read(payload_);
  return {parse_server_body(*head, body_), payload_};
}

ServerDelivery ServerConnection::receive(ServerMessage::Kind kind, std::size_t numbers, std::size_t reals) {
  ServerDelivery out = receive();
  if (out.message.kind != kind)
    throw CommError(fmt::format("parameter server: rank {} sent '{}' in place of '{}'", rank_, to_string(out.message.kind), to_string(kind)));
  require(out.message, rank_, numbers, reals);
  return out;
}

bool ServerConnection::offer(const SharedRegion* region) {
  std::array<std::byte, 16> nonce{};
  SharedRegion::Place place;
  if (region) {
    std::random_device random;
    for (std::byte& b : nonce) b = static_cast<std::byte>(random());
    std::ranges::copy(nonce, region->bytes().last(nonce.size()).begin());
    place = region->place();
  }
  send({ServerMessage::Kind::memory, {place.process, place.descriptor, place.bytes}}, nonce);
  return receive(ServerMessage::Kind::seen, 1).message.numbers[0] != 0;
}

HostBytes ServerConnection::take_offer() {
  const ServerDelivery offered = receive(ServerMessage::Kind::memory, 3);
  const std::vector<std::int64_t>& n = offered.message.numbers;
  HostBytes seen = see_region({n[0], n[1], n[2]}, offered.payload);
  send({ServerMessage::Kind::seen, {seen.first != nullptr}});
  return seen;
}

void require(const ServerMessage& message, int from, std::size_t numbers, std::size_t reals) {
  if (message.numbers.size() < numbers || message.reals.size() < reals)
    throw CommError(fmt::format("parameter server: rank {} sent '{}' with {} numbers and {} reals; accepted: {} and {} at least", from, to_string(message.kind),
                                message.numbers.size(), message.reals.size(), numbers, reals));
}

}  // namespace gemel::parallel
