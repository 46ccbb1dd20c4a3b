// Messages between the failure detectors of two ranks: four bytes with the length, then at most 64 KB.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemel::parallel {

struct WatchMessage {
  enum class Kind : std::uint8_t {
    hello,    // to rank 0: rank, the job's token as text
    welcome,  // from rank 0: the token
    join,     // to rank 0: of several connections this one is used
    beat,     // progress, and what the rank waits for as text
    report,   // to rank 0: an error as text
    loss,     // from rank 0: rank, why as text, ranks
    heard,    // to rank 0: the loss or the goodbye has arrived
    goodbye,
    note,  // to rank 0: a line of text that it records
  };
  Kind kind = Kind::beat;
  int rank = 0;
  std::uint64_t progress = 0;
  std::vector<int> ranks = {};
  std::string text = {};
};

constexpr std::size_t kWatchLengthBytes = 4;
constexpr std::size_t kWatchMessageBytes = 1 << 16;  // largest message
constexpr std::size_t kWatchTextBytes = 1 << 14;     // longer texts are truncated
constexpr std::size_t kWatchStrangerBytes = 1 << 8;  // largest message from an unknown connection; a token fits

/// Encodes a message with its length in front.
std::string watch_frame(const WatchMessage& message);
std::size_t watch_message_length(std::string_view four_bytes);
/// Decodes a message.
/// @param bytes  without the length
/// @return nothing for an invalid message
std::optional<WatchMessage> parse_watch_message(std::string_view bytes);

}  // namespace gemel::parallel
