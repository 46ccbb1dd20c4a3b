#include "parallel/parameter_server/server_messages.h"

#include <iterator>

#include "engine/base/error.h"

namespace gemel::parallel {
namespace {

// magic 4, kind 1, 0 3, numbers 4, reals 4, payload 8; all in the order of this machine's bytes, which the magic number shows
constexpr std::uint32_t kMagic = 0x50536732;

constexpr std::string_view kKindNames[] = {"hello",     "welcome", "memory", "seen", "ready", "want",      "batch", "parameters", "constants",
                                           "gradients", "result",  "update", "drop", "send",  "get_state", "state", "lost",       "end"};
static_assert(std::size(kKindNames) == static_cast<std::size_t>(ServerMessage::Kind::end) + 1);

}  // namespace

std::string_view to_string(ServerMessage::Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::vector<std::byte> server_frame(const ServerMessage& message, std::uint64_t payload) {
  if (std::ssize(message.numbers) > kServerNumbers || std::ssize(message.reals) > kServerNumbers)
    throw InternalError("parameter server: a message is too long");
  std::vector<std::byte> out(ServerHead::kBytes + 8 * (message.numbers.size() + message.reals.size()));
  set_value(out, 0, kMagic);
  set_value(out, 4, static_cast<std::uint8_t>(message.kind));
  set_value(out, 8, static_cast<std::uint32_t>(message.numbers.size()));
  set_value(out, 12, static_cast<std::uint32_t>(message.reals.size()));
  set_value(out, 16, payload);
  std::byte* to = out.data() + ServerHead::kBytes;
  if (!message.numbers.empty()) std::memcpy(to, message.numbers.data(), 8 * message.numbers.size());
  if (!message.reals.empty()) std::memcpy(to + 8 * message.numbers.size(), message.reals.data(), 8 * message.reals.size());
  return out;
}

std::optional<ServerHead> parse_server_head(std::span<const std::byte, ServerHead::kBytes> bytes, std::uint64_t most_payload) {
  const auto kind = value_at<std::uint8_t>(bytes, 4);
  if (value_at<std::uint32_t>(bytes, 0) != kMagic || kind > static_cast<std::uint8_t>(ServerMessage::Kind::end) || value_at<std::uint8_t>(bytes, 5) != 0 ||
      value_at<std::uint16_t>(bytes, 6) != 0)
    return std::nullopt;
  const ServerHead head{.kind = static_cast<ServerMessage::Kind>(kind),
                        .numbers = value_at<std::uint32_t>(bytes, 8),
                        .reals = value_at<std::uint32_t>(bytes, 12),
                        .payload = value_at<std::uint64_t>(bytes, 16)};
  if (head.numbers > kServerNumbers || head.reals > kServerNumbers || head.payload > most_payload) return std::nullopt;
  return head;
}

ServerMessage parse_server_body(const ServerHead& head, std::span<const std::byte> bytes) {
  ServerMessage out{head.kind, std::vector<std::int64_t>(head.numbers), std::vector<double>(head.reals)};
  if (head.numbers) std::memcpy(out.numbers.data(), bytes.data(), 8 * out.numbers.size());
  if (head.reals) std::memcpy(out.reals.data(), bytes.data() + 8 * out.numbers.size(), 8 * out.reals.size());
  return out;
}

}  // namespace gemel::parallel
