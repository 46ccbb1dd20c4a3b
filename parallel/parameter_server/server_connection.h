// ServerConnection: messages between a worker and a server over a socket, and memory that both see where they are on one machine. Who waits sleeps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"
#include "parallel/parameter_server/server_messages.h"
#include "parallel/parameter_server/shared_region.h"

namespace gemel::parallel {

/// Thrown by messages with a rank that is not there any more.
class PeerGone : public CommError {
 public:
  /// @param why  "was lost: its connection closed"
  PeerGone(int rank, const std::string& why);
  int rank() const { return rank_; }
  const std::string& why() const { return why_; }

 private:
  int rank_;
  std::string why_;
};

/// Ends the waits of a thread that sleeps for messages. From any thread.
class ServerAlarm {
 public:
  /// @throws CommError if the system gives no more descriptors
  ServerAlarm();
  /// Every present and future wait throws AbortedError with this text. Later texts are ignored.
  void abort(const std::string& why);
  /// Waits for this rank throw PeerGone.
  void lose(int rank, const std::string& why);

  int descriptor() const { return event_.get(); }
  /// Takes the alarm that ended a wait. @throws AbortedError
  void check();
  /// Why a rank is gone, if it is.
  std::optional<std::string> loss_of(int rank) const;
  std::map<int, std::string> losses() const;
  /// Sleeps until it is aborted, and no longer than that. @throws AbortedError
  void wait_for_abort(double seconds);

 private:
  void ring();
  Descriptor event_;
  mutable std::mutex mutex_;
  std::optional<std::string> aborted_;
  std::map<int, std::string> lost_;
};

/// A message with its payload, which stays until the next message of the connection.
struct ServerDelivery {
  ServerMessage message;
  std::span<const std::byte> payload;
};

class ServerConnection {
 public:
  /// @param rank   at the other end
  /// @param alarm  must outlive the connection
  ServerConnection(Descriptor socket, int rank, ServerAlarm& alarm);

  int rank() const { return rank_; }
  int descriptor() const { return socket_.get(); }
  /// Sets the largest payload to take, in bytes. At first 4 KiB.
  void expect_at_most(std::int64_t payload) { most_ = payload; }

  /// While this waits it calls `hear` whenever another connection's socket has something, which `hear` takes.
  void heed(int descriptor, std::function<void()> hear) { heeded_ = {descriptor, std::move(hear)}; }
  /// The longest wait within `send` or `receive` from here on, after which the other side is gone. 0: none, as at first
  void limit_silence(double seconds) { silence_s_ = seconds; }

  /// Offers memory to the other side, which calls `take_offer` at the same point. Its last bytes become a nonce. The region must outlive the connection; null:
  /// there is none.
  /// @return whether the other side sees it
  bool offer(const SharedRegion* region);
  /// @return the other side's memory; empty if this side does not see it
  HostBytes take_offer();

  /// @throws PeerGone, AbortedError; so do all below
  void send(const ServerMessage& message, std::span<const std::byte> payload = {});
  /// Waits for the next message.
  ServerDelivery receive();
  /// Waits for the next message, which has this kind and so many numbers and reals at least.
  /// @throws CommError for another
  ServerDelivery receive(ServerMessage::Kind kind, std::size_t numbers = 0, std::size_t reals = 0);

 private:
  void wait(short events);
  void write(std::span<const std::byte> bytes);
  void read(std::span<std::byte> bytes);
  [[noreturn]] void gone(const std::string& why);

  Descriptor socket_;
  int rank_;
  ServerAlarm& alarm_;
  std::int64_t most_ = 4096;
  double silence_s_ = 0;
  struct {
    int descriptor = -1;
    std::function<void()> hear = {};
  } heeded_;
  std::vector<std::byte> body_, payload_;
};

/// @throws CommError if the message has fewer numbers or reals
void require(const ServerMessage& message, int from, std::size_t numbers, std::size_t reals);

}  // namespace gemel::parallel
