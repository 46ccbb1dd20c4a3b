// Messages of a parameter server: that they come back, and that hostile bytes are refused before anything is allocated for them.
#include "parallel/parameter_server/server_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace gemel::parallel {
namespace {

using Kind = ServerMessage::Kind;
using Head = std::array<std::byte, ServerHead::kBytes>;

Head head_of(const std::vector<std::byte>& frame) {
  Head out{};
  std::ranges::copy_n(frame.begin(), ServerHead::kBytes, out.begin());
  return out;
}

TEST(ServerMessages, come_back_as_they_were) {
  const ServerMessage message{Kind::gradients, {7, -1, std::int64_t{1} << 62}, {0.5, -1e300}};
  const std::vector<std::byte> frame = server_frame(message, 4096);
  const auto head = parse_server_head(head_of(frame), 4096);
  ASSERT_TRUE(head);
  EXPECT_EQ(frame.size(), ServerHead::kBytes + head->body_bytes());
  EXPECT_EQ(head->payload, 4096u);
  const ServerMessage back = parse_server_body(*head, std::span(frame).subspan(ServerHead::kBytes));
  EXPECT_EQ(back.kind, message.kind);
  EXPECT_EQ(back.numbers, message.numbers);
  EXPECT_EQ(back.reals, message.reals);
}

TEST(ServerMessages, have_names) {
  EXPECT_EQ(to_string(Kind::hello), "hello");
  EXPECT_EQ(to_string(Kind::get_state), "get_state");
  EXPECT_EQ(to_string(Kind::end), "end");
}

TEST(ServerMessages, that_ask_for_more_than_there_is_are_refused) {
  const auto refused = [](std::uint64_t payload, std::uint64_t most) { return !parse_server_head(head_of(server_frame({Kind::parameters}, payload)), most); };
  EXPECT_FALSE(refused(100, 100));
  EXPECT_TRUE(refused(101, 100)) << "more than the receiver takes";
  EXPECT_TRUE(refused(~std::uint64_t{0}, 100));
}

TEST(ServerMessages, of_hostile_bytes_are_never_larger_than_their_bounds) {
  std::mt19937_64 random(11);
  const std::vector<std::byte> good = server_frame({Kind::batch, {1, 2, 3}, {4.0}}, 64);
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    Head bytes = head_of(good);
    if (i % 2)
      for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    else
      for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto head = parse_server_head(bytes, 1 << 20);
    if (!head) continue;
    ++accepted;
    ASSERT_LE(head->payload, 1u << 20);
    ASSERT_LE(head->body_bytes(), 16u * kServerNumbers);
    ASSERT_LE(static_cast<int>(head->kind), static_cast<int>(Kind::end));
  }
  EXPECT_GT(accepted, 100) << "some of them are whole messages";
}

}  // namespace
}  // namespace gemel::parallel
