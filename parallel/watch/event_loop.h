// Connections, messages and timers of one thread.
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
  using Peer = std::int64_t;  // a connection; no number comes twice

  /// All in the thread of `run`.
  class Events {
   public:
    virtual ~Events() = default;
    /// What `connect` began is there.
    virtual void opened(Peer peer) = 0;
    virtual void message(Peer peer, const WatchMessage& message) = 0;
    /// By the other side, or it sent what is no message, or `connect` failed. Not after `close`.
    virtual void closed(Peer peer, const std::string& why) = 0;
  };

  WatchLoop();
  ~WatchLoop();

  /// @param address  empty: all addresses of this host
  /// @return the port  @throws CommError
  std::uint16_t listen(const std::string& address);

  /// Returns after `stop`, which any thread may call.
  void run(Events& events);
  void stop();
  /// Runs it in the thread of `run`. From any thread.
  void post(std::function<void()> work);

  // The rest is called in the thread of `run`.
  /// Who connected and is not trusted is dropped, without `closed`.
  void stop_listening();
  Peer connect(const WatchEndpoint& endpoint);
  /// Its messages may have full length from now on.
  void trust(Peer peer);
  /// Does not wait. What cannot be sent is forgotten: the connection's end follows. A beat is left out while others wait.
  void send(Peer peer, const WatchMessage& message);
  void close(Peer peer);
  void after(WatchClock::duration time, std::function<void()> work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gemel::parallel
