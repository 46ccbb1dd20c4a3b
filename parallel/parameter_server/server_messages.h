// Messages between workers and servers: a head of fixed length, numbers, a payload.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace gemel::parallel {

template <class T>
T value_at(std::span<const std::byte> bytes, std::size_t place) {
  T out;
  std::memcpy(&out, bytes.data() + place, sizeof out);
  return out;
}
template <class T>
void set_value(std::span<std::byte> bytes, std::size_t place, T value) {
  std::memcpy(bytes.data() + place, &value, sizeof value);
}

struct ServerMessage {
  enum class Kind : std::uint8_t {
    hello,       // from who connects: its rank; the job's token as payload
    welcome,     // the token
    memory,      // offers memory: process, file descriptor, bytes; a nonce that stands at its end
    seen,        // whether the memory that was offered is seen
    ready,       // to server 0: this rank needs nothing of other ranks any more but by these messages
    want,        // to server 0: a worker wants its first batch
    batch,       // to a worker: what to compute
    parameters,  // to a worker: a shard, unless it lies in the worker's memory; from server 0 running statistics behind it
    constants,   // to a worker: what is not trained
    gradients,   // to a server: as parameters
    result,      // to server 0: of an evaluation
    update,      // from server 0 to another: whose gradients of which parts to apply, as pairs; rate and weights
    drop,        // from server 0 to another: whose gradient of which part to leave
    send,        // from server 0 to another: the worker to send the shard to, whose gradients in shared memory are then copied
    get_state,   // from server 0 to another
    state,       // of a shard
    lost,        // from server 0 to another: a worker
    end,         // from server 0
  };
  Kind kind = Kind::end;
  std::vector<std::int64_t> numbers = {};
  std::vector<double> reals = {};
};
/// "get_state"
std::string_view to_string(ServerMessage::Kind kind);

constexpr std::int64_t kServerNumbers = std::int64_t{1} << 16;  // most numbers of a message, and most reals

/// The head of a message, as it travels.
struct ServerHead {
  static constexpr std::size_t kBytes = 24;
  ServerMessage::Kind kind = ServerMessage::Kind::end;
  std::uint32_t numbers = 0, reals = 0;
  std::uint64_t payload = 0;  // bytes

  std::size_t body_bytes() const { return 8 * (std::size_t{numbers} + reals); }
};

/// Encodes head, numbers and reals.
/// @param payload  its bytes
std::vector<std::byte> server_frame(const ServerMessage& message, std::uint64_t payload);
/// @param most_payload  bytes that the receiver takes
/// @return nothing for a head that no server or worker sends, or of more than that
std::optional<ServerHead> parse_server_head(std::span<const std::byte, ServerHead::kBytes> bytes, std::uint64_t most_payload);
/// @param bytes  body_bytes() of them
ServerMessage parse_server_body(const ServerHead& head, std::span<const std::byte> bytes);

}  // namespace gemel::parallel
