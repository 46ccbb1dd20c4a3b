// A rank whose rank 0 is silent: it leaves it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>

#include "parallel/watch/addresses.h"
#include "parallel/watch/failure_detector.h"
#include "parallel/watch/messages.h"
#include "tests/support/ranks/failure_detector_support.h"

namespace gemel::parallel {
namespace {

using MessageKind = WatchMessage::Kind;

/// A rank 0 that welcomes one rank and then says nothing any more.
class SilentRank0 {
 public:
  SilentRank0() : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(listening_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(listening_, 1), 0);
    EXPECT_EQ(::getsockname(listening_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    announced_ = {.token = random_token(), .endpoints = {{"127.0.0.1", ::ntohs(at.sin_port)}}};
  }
  ~SilentRank0() {
    for (const int one : {listening_, socket_}) ::close(one);
  }
  SilentRank0(const SilentRank0&) = delete;
  SilentRank0& operator=(const SilentRank0&) = delete;

  std::string address() const { return announced_.text(); }
  void welcome() {
    socket_ = ::accept(listening_, nullptr, nullptr);
    const std::string welcome = watch_frame({.kind = MessageKind::welcome, .text = announced_.token});
    EXPECT_EQ(::send(socket_, welcome.data(), welcome.size(), MSG_NOSIGNAL), std::ssize(welcome));
  }
  /// Whether the other side closes the connection, in which it may have said anything.
  bool is_left() const {
    pollfd one{socket_, POLLIN, 0};
    for (char bytes[256]; ::poll(&one, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1;)
      if (::recv(socket_, bytes, sizeof bytes, 0) <= 0) return true;
    return false;
  }

 private:
  int listening_, socket_ = -1;
  WatchAnnouncement announced_;
};

/// Rank 0 may hear it, and learns at once that it is gone: a launcher waits no longer for it to say so.
TEST(FailureDetector, a_rank_that_hears_nothing_of_rank_0_closes_its_connection) {
  SilentRank0 rank_0;
  std::promise<Loss> told;
  FailureDetector watch(1, host_names(2), {.heartbeat_s = 0.6}, {.on_loss = [&](const Loss& loss) { told.set_value(loss); }});
  std::future<void> welcoming = std::async(std::launch::async, [&] { rank_0.welcome(); });
  watch.connect(rank_0.address());
  welcoming.get();
  EXPECT_TRUE(rank_0.is_left());
  std::future<Loss> loss = told.get_future();
  ASSERT_EQ(loss.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(loss.get().why, "has been silent for 0.6 s");
}

}  // namespace
}  // namespace gemel::parallel
