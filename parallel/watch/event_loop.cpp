#include "parallel/watch/event_loop.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#define BOOST_ASIO_DISABLE_FENCED_BLOCK  // it does not know fences; the queues of Asio have locks
#endif
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <deque>
#include <list>
#include <map>
#include <utility>

#include "engine/base/error.h"

namespace gemel::parallel {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

/// Open, and closed in what this process executes: a child that keeps a connection would hide its parent's death.
template <class Socket>
void open(Socket& socket, const tcp& protocol, ErrorCode& error) {
  const int descriptor = ::socket(protocol.family(), SOCK_STREAM | SOCK_CLOEXEC, protocol.protocol());
  if (descriptor < 0)
    error.assign(errno, boost::system::system_category());
  else
    socket.assign(protocol, descriptor, error);
}

}  // namespace

struct WatchLoop::Impl {
  /// Stays until its last operation has ended, also when it is closed.
  struct Connection {
    Connection(Peer number, tcp::socket from) : id(number), socket(std::move(from)) {}
    Peer id;
    tcp::socket socket;
    bool open = true, mute = false;  // mute: sending has failed; what came before can still be read
    int pending = 0;
    std::size_t limit = kWatchStrangerBytes;
    std::array<char, kWatchLengthBytes> length{};
    std::string body;
    std::deque<std::string> out;
  };

  asio::io_context io{1};
  std::list<tcp::acceptor> acceptors;
  std::map<Peer, Connection> connections;
  Peer next = 0;
  Events* events = nullptr;

  Connection& add(tcp::socket socket) {
    const Peer id = next++;
    return connections.try_emplace(id, id, std::move(socket)).first->second;
  }
  void reap(const Connection& c) {
    if (!c.open && c.pending == 0) connections.erase(c.id);
  }
  void close(Connection& c) {
    ErrorCode ignored;
    c.open = false;
    c.socket.close(ignored);
    reap(c);
  }
  void drop(Connection& c, const std::string& why) {
    const Peer id = c.id;
    close(c);
    events->closed(id, why);
  }
  /// An operation ended. @return whether the connection goes on
  bool ended(Connection& c, const ErrorCode& error) {
    --c.pending;
    if (c.open && !error) return true;
    if (c.open)
      drop(c, error == asio::error::eof ? "it closed the connection" : error.message());
    else
      reap(c);
    return false;
  }

  bool listen(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, bool both, ErrorCode& error) {
    open(acceptor, endpoint.protocol(), error);
    if (!error && both) acceptor.set_option(asio::ip::v6_only(false), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) acceptor.native_non_blocking(true, error);
    return !error;
  }
  void accept(tcp::acceptor& acceptor) {
    acceptor.async_wait(tcp::acceptor::wait_read, [this, &acceptor](const ErrorCode& error) {
      if (error || !acceptor.is_open()) return;
      ErrorCode failed;
      const tcp protocol = acceptor.local_endpoint(failed).protocol();
      const int descriptor = ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
        return after(std::chrono::milliseconds(100), [this, &acceptor] {  // no descriptor is free, and waiting for one would spin
          if (acceptor.is_open()) accept(acceptor);
        });
      if (descriptor >= 0) {
        tcp::socket socket(io);
        socket.assign(protocol, descriptor, failed);
        if (failed)
          ::close(descriptor);
        else
          begin(add(std::move(socket)));
      }
      accept(acceptor);
    });
  }

  void begin(Connection& c) {
    ErrorCode ignored;
    c.socket.set_option(tcp::no_delay(true), ignored);
    read(c);
  }
  void read(Connection& c) {
    ++c.pending;
    asio::async_read(c.socket, asio::buffer(c.length), [this, &c](const ErrorCode& error, std::size_t) {
      if (!ended(c, error)) return;
      const std::size_t length = watch_message_length({c.length.data(), c.length.size()});
      if (length > c.limit) return drop(c, "another program answers there");
      c.body.resize(length);
      ++c.pending;
      asio::async_read(c.socket, asio::buffer(c.body), [this, &c](const ErrorCode& failed, std::size_t) {
        if (ended(c, failed)) take(c);
      });
    });
  }
  void take(Connection& c) {
    const std::optional<WatchMessage> message = parse_watch_message(c.body);
    if (!message) return drop(c, "another program answers there");
    ++c.pending;  // while others look at it
    events->message(c.id, *message);
    --c.pending;
    if (c.open)
      read(c);
    else
      reap(c);
  }
  void write(Connection& c) {
    ++c.pending;
    asio::async_write(c.socket, asio::buffer(c.out.front()), [this, &c](const ErrorCode& error, std::size_t) {
      --c.pending;
      c.mute = c.mute || error;
      if (!c.open) return reap(c);
      c.out.pop_front();
      if (c.mute)
        c.out.clear();
      else if (!c.out.empty())
        write(c);
    });
  }
  void after(WatchClock::duration time, std::function<void()> work) {
    auto owner = std::make_unique<asio::steady_timer>(io, time);
    asio::steady_timer& timer = *owner;
    timer.async_wait([kept = std::move(owner), work = std::move(work)](const ErrorCode& error) {
      if (!error) work();
    });
  }
};

WatchLoop::WatchLoop() : impl_(std::make_unique<Impl>()) {}
WatchLoop::~WatchLoop() = default;

std::uint16_t WatchLoop::listen(const std::string& address) {
  ErrorCode error;
  tcp::acceptor acceptor(impl_->io);
  if (!address.empty()) {
    const asio::ip::address parsed = asio::ip::make_address(address, error);
    if (!error) impl_->listen(acceptor, {parsed, 0}, false, error);
  } else if (!impl_->listen(acceptor, {tcp::v6(), 0}, true, error)) {  // no IPv6 here
    acceptor = tcp::acceptor(impl_->io);
    error.clear();
    impl_->listen(acceptor, {tcp::v4(), 0}, false, error);
  }
  if (error) throw CommError(fmt::format("failure watch: cannot listen on {}: {}", address.empty() ? "any address" : address, error.message()));
  const std::uint16_t port = acceptor.local_endpoint().port();
  impl_->acceptors.push_back(std::move(acceptor));
  impl_->accept(impl_->acceptors.back());
  return port;
}

void WatchLoop::run(Events& events) {
  impl_->events = &events;
  const auto work = asio::make_work_guard(impl_->io);
  impl_->io.run();
}
void WatchLoop::stop() { impl_->io.stop(); }
void WatchLoop::post(std::function<void()> work) { asio::post(impl_->io, std::move(work)); }

void WatchLoop::stop_listening() {
  ErrorCode ignored;
  for (tcp::acceptor& acceptor : impl_->acceptors) acceptor.close(ignored);
  for (auto next = impl_->connections.begin(); next != impl_->connections.end();) {
    Impl::Connection& c = (next++)->second;  // closing may remove it
    if (c.open && c.limit == kWatchStrangerBytes) impl_->close(c);
  }
}

WatchLoop::Peer WatchLoop::connect(const WatchEndpoint& endpoint) {
  Impl& impl = *impl_;
  Impl::Connection& c = impl.add(tcp::socket(impl.io));
  ErrorCode error;
  const tcp::endpoint to(asio::ip::make_address(endpoint.address, error), endpoint.port);
  if (!error) open(c.socket, to.protocol(), error);
  ++c.pending;
  const auto connected = [&impl, &c](const ErrorCode& failed) {
    if (!impl.ended(c, failed)) return;
    ++c.pending;
    impl.events->opened(c.id);
    --c.pending;
    if (c.open)
      impl.begin(c);
    else
      impl.reap(c);
  };
  if (error)
    asio::post(impl.io, [connected, error] { connected(error); });
  else
    c.socket.async_connect(to, connected);
  return c.id;
}

void WatchLoop::trust(Peer peer) {
  if (const auto found = impl_->connections.find(peer); found != impl_->connections.end()) found->second.limit = kWatchMessageBytes;
}

void WatchLoop::send(Peer peer, const WatchMessage& message) {
  const auto found = impl_->connections.find(peer);
  if (found == impl_->connections.end() || !found->second.open || found->second.mute) return;
  Impl::Connection& c = found->second;
  if (message.kind == WatchMessage::Kind::beat && !c.out.empty()) return;
  c.out.push_back(watch_frame(message));
  if (c.out.size() == 1) impl_->write(c);
}

void WatchLoop::close(Peer peer) {
  if (const auto found = impl_->connections.find(peer); found != impl_->connections.end() && found->second.open) impl_->close(found->second);
}

void WatchLoop::after(WatchClock::duration time, std::function<void()> work) { impl_->after(time, std::move(work)); }

}  // namespace gemel::parallel
