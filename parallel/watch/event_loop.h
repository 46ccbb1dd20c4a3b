// WatchLoop: runs connections, messages and timers in one thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "parallel/watch/addresses.h"
#include "parallel/watch/messages.h"

namespace gemel::parallel {

using WatchClock = std::chrono::steady_clock;

class WatchLoop {
 public:
  using Peer = std::int64_t;  // a connection; numbers are not used again

  /// Callbacks, called in the thread of `run`.
  class Events {
   public:
    virtual ~Events() = default;
    /// A connection begun by `connect` is open.
    virtual void opened(Peer peer) = 0;
    virtual void message(Peer peer, const WatchMessage& message) = 0;
    /// The other side closed the connection or sent an invalid message, or `connect` failed. Not called after `close`.
    virtual void closed(Peer peer, const std::string& why) = 0;
  };

  WatchLoop();
  ~WatchLoop();

  /// @param address  address to listen at; empty: all addresses of this host
  /// @return the port  @throws CommError if it cannot listen
  std::uint16_t listen(const std::string& address);

  /// Runs the loop until `stop`, which any thread may call.
  void run(Events& events);
  void stop();
  /// Runs `work` in the thread of `run`. From any thread.
  void post(std::function<void()> work);

  // The following are called in the thread of `run`.
  /// Stops listening, and drops connections that are not trusted, without `closed`.
  void stop_listening();
  Peer connect(const WatchEndpoint& endpoint);
  /// Allows messages of full length from this connection.
  void trust(Peer peer);
  /// Sends without waiting. A message that cannot be sent is dropped, and the connection will close. A beat is left out if other messages are waiting.
  void send(Peer peer, const WatchMessage& message);
  void close(Peer peer);
  void after(WatchClock::duration time, std::function<void()> work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gemel::parallel
