#include "parallel/watch/messages.h"

#include <algorithm>

namespace gemel::parallel {
namespace {

// kind 1, rank 4, progress 8, number of ranks 4, ranks 4 each, text; numbers begin with their lowest byte
constexpr std::size_t kFixedBytes = 17;
constexpr std::size_t kRanks = 8192;

void put(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}
std::uint64_t get(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
  return value;
}
int get_int(std::string_view bytes) { return static_cast<int>(static_cast<std::uint32_t>(get(bytes))); }

}  // namespace

std::string watch_frame(const WatchMessage& message) {
  const std::size_t ranks = std::min(message.ranks.size(), kRanks);
  const std::string_view text = std::string_view(message.text).substr(0, kWatchTextBytes);
  std::string out;
  put(out, kFixedBytes + 4 * ranks + text.size(), kWatchLengthBytes);
  put(out, static_cast<std::uint8_t>(message.kind), 1);
  put(out, static_cast<std::uint32_t>(message.rank), 4);
  put(out, message.progress, 8);
  put(out, ranks, 4);
  for (std::size_t i = 0; i < ranks; ++i) put(out, static_cast<std::uint32_t>(message.ranks[i]), 4);
  out += text;
  return out;
}

std::size_t watch_message_length(std::string_view four_bytes) { return get(four_bytes.substr(0, kWatchLengthBytes)); }

std::optional<WatchMessage> parse_watch_message(std::string_view bytes) {
  if (bytes.size() < kFixedBytes) return {};
  const std::uint64_t kind = get(bytes.substr(0, 1)), ranks = get(bytes.substr(13, 4));
  if (kind > static_cast<std::uint64_t>(WatchMessage::Kind::note) || ranks > (bytes.size() - kFixedBytes) / 4) return {};
  WatchMessage message{static_cast<WatchMessage::Kind>(kind), get_int(bytes.substr(1, 4)), get(bytes.substr(5, 8))};
  for (std::size_t i = 0; i < ranks; ++i) message.ranks.push_back(get_int(bytes.substr(kFixedBytes + 4 * i, 4)));
  message.text = bytes.substr(kFixedBytes + 4 * ranks);
  return message;
}

}  // namespace gemel::parallel
