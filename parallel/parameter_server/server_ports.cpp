#include "parallel/parameter_server/server_ports.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ranges>

#include "engine/base/files/file.h"
#include "engine/base/numbers.h"
#include "parallel/watch/addresses.h"

namespace gemel::parallel {
namespace {

using PortClock = std::chrono::steady_clock;

PortClock::time_point in(double seconds) { return PortClock::now() + std::chrono::duration_cast<PortClock::duration>(std::chrono::duration<double>(seconds)); }
int milliseconds_until(PortClock::time_point end) {
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(end - PortClock::now()).count()));
}

constexpr double kStrangerSeconds = 1;  // to say who it is

/// @param milliseconds  0: no limit
void limit_wait(int socket, int milliseconds) {
  const timeval time{milliseconds / 1000, milliseconds % 1000 * 1000};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool send_all(int socket, std::span<const std::byte> bytes) { return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == std::ssize(bytes); }
bool receive_all(int socket, std::span<std::byte> bytes, PortClock::time_point end) {
  const int left = milliseconds_until(end);
  if (left == 0) return false;
  limit_wait(socket, left);
  return ::recv(socket, bytes.data(), bytes.size(), MSG_WAITALL) == std::ssize(bytes);
}

/// @return whether it was sent
bool say(int socket, const ServerMessage& message, std::string_view token) {
  std::vector<std::byte> frame = server_frame(message, token.size());
  const auto text = std::as_bytes(std::span(token));
  frame.insert(frame.end(), text.begin(), text.end());
  return send_all(socket, frame);
}

/// A message with a token, from who may be a stranger, who is not waited for. @return nothing where it is none
std::optional<ServerMessage> hear(int socket, std::string_view token, PortClock::time_point end) {
  constexpr std::uint32_t kFew = 4;
  end = std::min(end, in(kStrangerSeconds));
  std::array<std::byte, ServerHead::kBytes> bytes{};
  if (!receive_all(socket, bytes, end)) return std::nullopt;
  const auto head = parse_server_head(bytes, token.size());
  if (!head || head->numbers > kFew || head->reals > kFew || head->payload != token.size()) return std::nullopt;
  std::vector<std::byte> body(head->body_bytes()), said(token.size());
  if (!receive_all(socket, body, end) || !receive_all(socket, said, end) || !std::ranges::equal(said, std::as_bytes(std::span(token)))) return std::nullopt;
  return parse_server_body(*head, body);
}

/// Of a socket that has shown who is at its other end.
std::unique_ptr<ServerConnection> connection_over(Descriptor socket, int rank, ServerAlarm& alarm) {
  limit_wait(socket.get(), 0);
  send_at_once(socket.get());
  return std::make_unique<ServerConnection>(std::move(socket), rank, alarm);
}

Descriptor listening(const std::string& address, int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return socket;
  bool bound = false;
  if (family == AF_INET6) {
    const int off = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_addr = in6addr_any;
    if (!address.empty()) ::inet_pton(AF_INET6, address.c_str(), &to.sin6_addr);
    bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  } else {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_ANY);
    if (!address.empty()) ::inet_pton(AF_INET, address.c_str(), &to.sin_addr);
    bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  if (!bound || ::listen(socket.get(), SOMAXCONN) != 0) return Descriptor(-1);
  return socket;
}

std::uint16_t port_of(int socket) {
  sockaddr_storage at_{};
  socklen_t length = sizeof at_;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&at_), &length);
  return ntohs(at_.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&at_)->sin6_port : reinterpret_cast<const sockaddr_in*>(&at_)->sin_port);
}

/// Begins to connect. @return no socket where there is no way to it
Descriptor connecting(const WatchEndpoint& endpoint) {
  const bool six = endpoint.address.find(':') != std::string::npos;
  Descriptor socket(::socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return socket;
  sockaddr_storage to{};
  socklen_t length = 0;
  if (six) {
    auto& of = reinterpret_cast<sockaddr_in6&>(to);
    of.sin6_family = AF_INET6;
    of.sin6_port = htons(endpoint.port);
    ::inet_pton(AF_INET6, endpoint.address.c_str(), &of.sin6_addr);
    length = sizeof of;
  } else {
    auto& of = reinterpret_cast<sockaddr_in&>(to);
    of.sin_family = AF_INET;
    of.sin_port = htons(endpoint.port);
    ::inet_pton(AF_INET, endpoint.address.c_str(), &of.sin_addr);
    length = sizeof of;
  }
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), length) != 0 && errno != EINPROGRESS) return Descriptor(-1);
  return socket;
}

bool is_connected(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

/// An address of a server that is tried.
struct Attempt {
  Descriptor socket;
  bool is_asked;  // hello was said
};

/// What comes next, once the socket is ready for it. The server answers one of a rank's hellos, and drops the others.
/// @return whether it was the answer; without a socket the attempt is over
bool go_on(Attempt& attempt, int self, std::string_view token, PortClock::time_point end) {
  const int socket = attempt.socket.get();
  if (attempt.is_asked) {
    const auto said = hear(socket, token, end);
    if (said && said->kind == ServerMessage::Kind::welcome) return true;
  } else if (is_connected(socket)) {
    ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) & ~O_NONBLOCK);
    attempt.is_asked = say(socket, {ServerMessage::Kind::hello, {self}}, token);
    if (attempt.is_asked) return false;
  }
  attempt.socket = Descriptor(-1);
  return false;
}

}  // namespace

ServerPort::ServerPort(const std::string& interface) : socket_(-1), token_(random_token()) {
  const std::vector<std::string> addresses = addresses_of(interface);
  std::string own = interface.empty() ? "" : addresses.front();
  const bool six = own.empty() || own.find(':') != std::string::npos;
  if (six) socket_ = listening(own, AF_INET6);
  if (socket_.get() < 0) socket_ = listening(own, AF_INET);
  if (socket_.get() < 0) throw CommError(fmt::format("parameter server: cannot listen on {}: {}", own.empty() ? "any address" : own, system_message(errno)));
  WatchAnnouncement announced{token_, {}};
  for (const std::string& address : own.empty() ? addresses : std::vector{own}) announced.endpoints.push_back({address, port_of(socket_.get())});
  announcement_ = announced.text();
}

ServerConnections ServerPort::accept(const std::vector<int>& ranks, ServerAlarm& alarm, double seconds) {
  ServerConnections out;
  const auto end = in(seconds);
  while (out.size() < ranks.size()) {
    alarm.check();
    pollfd on[] = {{socket_.get(), POLLIN, 0}, {alarm.descriptor(), POLLIN, 0}};
    const int left = milliseconds_until(end);
    if (left == 0) {
      std::vector<int> missing;
      std::ranges::copy_if(ranks, std::back_inserter(missing), [&](int r) { return !out.contains(r); });
      throw CommError(fmt::format("parameter server: ranks {} did not connect within {:g} s", fmt::join(missing, ", "), seconds));
    }
    if (::poll(on, 2, left) <= 0 || on[0].revents == 0) continue;
    Descriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) continue;
    const auto said = hear(socket.get(), token_, end);
    if (!said || said->kind != ServerMessage::Kind::hello || said->numbers.empty()) continue;
    const auto known = std::ranges::find(ranks, said->numbers[0]);
    if (known == ranks.end() || out.contains(*known)) continue;
    if (say(socket.get(), {ServerMessage::Kind::welcome}, token_)) out.emplace(*known, connection_over(std::move(socket), *known, alarm));
  }
  socket_ = Descriptor(-1);
  return out;
}

std::unique_ptr<ServerConnection> connect_to_server(int self, int server, const std::string& announcement, ServerAlarm& alarm, double seconds) {
  const WatchAnnouncement of = WatchAnnouncement::parse(announcement);
  const auto end = in(seconds);
  std::vector<Attempt> attempts;  // all at once: some may never be answered
  std::vector<std::string> tried;
  for (const WatchEndpoint& endpoint : of.endpoints) {
    tried.push_back(endpoint.text());
    attempts.push_back({connecting(endpoint), false});
  }
  while (const int left = milliseconds_until(end)) {
    alarm.check();
    std::erase_if(attempts, [](const Attempt& a) { return a.socket.get() < 0; });
    if (attempts.empty()) break;
    std::vector<pollfd> on{{alarm.descriptor(), POLLIN, 0}};
    for (const Attempt& a : attempts) on.push_back({a.socket.get(), static_cast<short>(a.is_asked ? POLLIN : POLLOUT), 0});
    if (::poll(on.data(), on.size(), left) <= 0) continue;
    for (std::size_t i = 0; i < attempts.size(); ++i)
      if (on[i + 1].revents != 0 && go_on(attempts[i], self, of.token, end)) return connection_over(std::move(attempts[i].socket), server, alarm);
  }
  throw CommError(fmt::format("parameter server: rank {} does not reach server {} at any of {} within {:g} s", self, server, fmt::join(tried, ", "), seconds));
}

}  // namespace gemel::parallel
