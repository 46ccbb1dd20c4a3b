// Connections between workers and servers, in threads of one process: messages, shared memory, strangers, and ends of the other side.
#include "parallel/parameter_server/server_connection.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <numeric>
#include <thread>

#include "parallel/parameter_server/server_peers.h"
#include "parallel/parameter_server/server_ports.h"
#include "parallel/transport/spin_wait.h"
#include "parallel/watch/addresses.h"
#include "tests/support/message_of.h"

namespace gemel::parallel {
namespace {

using testing::message_of;
using Kind = ServerMessage::Kind;

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7);
  return out;
}

/// A server and one worker.
class ServerConnections : public ::testing::Test {
 protected:
  void connect() {
    ServerPort port("");
    auto accepted = std::async(std::launch::async, [&] { return port.accept({1}, server_alarm, 10); });
    worker = connect_to_server(1, 0, port.announcement(), worker_alarm, 10);
    peers.emplace(accepted.get(), server_alarm);
  }
  ServerAlarm server_alarm, worker_alarm;
  std::unique_ptr<ServerConnection> worker;
  std::optional<ServerPeers> peers;
};

TEST_F(ServerConnections, carry_payloads_and_show_each_other_memory) {
  connect();
  const std::vector<std::byte> payload = numbered(3 << 20);
  ServerConnection& server = peers->of(1);
  server.expect_at_most(std::ssize(payload));
  {
    std::jthread sender([&] { worker->send({Kind::gradients, {5}}, payload); });
    const ServerPeers::Event event = peers->next();
    ASSERT_FALSE(event.gone);
    EXPECT_EQ(event.rank, 1);
    EXPECT_TRUE(std::ranges::equal(event.delivery.payload, payload));
  }
  auto region = SharedRegion::make(std::ssize(payload));
  ASSERT_TRUE(region);
  std::ranges::copy(payload, region->bytes().begin());
  auto offered = std::async(std::launch::async, [&] { return worker->offer(region.get()); });
  const HostBytes seen = server.take_offer();
  ASSERT_TRUE(offered.get());
  const std::span bytes(seen.first.get(), payload.size());
  EXPECT_TRUE(std::ranges::equal(bytes.first(4096), std::span(payload).first(4096))) << "the nonce stands at its end";
  region->bytes()[4096] = std::byte{99};
  EXPECT_EQ(bytes[4096], std::byte{99});
  bytes[5] = std::byte{98};
  EXPECT_EQ(region->bytes()[5], std::byte{98});
  region.reset();
  EXPECT_EQ(bytes[5], std::byte{98}) << "it stays as long as it is seen";
  auto none = std::async(std::launch::async, [&] { return worker->offer(nullptr); });
  EXPECT_FALSE(server.take_offer().first);
  EXPECT_FALSE(none.get());
}

TEST_F(ServerConnections, name_messages_that_are_out_of_turn) {
  connect();
  worker->send({Kind::drop});
  EXPECT_EQ(message_of<CommError>([&] { peers->of(1).receive(Kind::update); }), "parameter server: rank 1 sent 'drop' in place of 'update'");
  worker->send({Kind::update, {3}});
  EXPECT_EQ(message_of<CommError>([&] { peers->of(1).receive(Kind::update, 2); }),
            "parameter server: rank 1 sent 'update' with 1 numbers and 0 reals; accepted: 2 and 0 at least");
}

TEST_F(ServerConnections, tell_when_the_other_side_is_gone_and_when_the_job_ends) {
  connect();
  std::thread([&] { worker.reset(); }).join();
  const ServerPeers::Event event = peers->next();
  EXPECT_TRUE(event.gone);
  EXPECT_EQ(event.why, "was lost: its connection closed");
  connect();
  auto wait = std::async(std::launch::async, [&] { peers->next(); });
  server_alarm.abort("rank 2 was lost");
  EXPECT_THROW(wait.get(), AbortedError);
}

TEST_F(ServerConnections, leave_a_rank_that_is_silent_once_it_counts_as_lost) {
  connect();
  auto wait = std::async(std::launch::async, [&] { return peers->next(); });
  server_alarm.lose(1, "has been silent for 8 s");
  const ServerPeers::Event event = wait.get();
  EXPECT_TRUE(event.gone);
  EXPECT_EQ(event.why, "has been silent for 8 s");
  EXPECT_EQ(message_of<PeerGone>([&] { peers->of(1).receive(); }), "parameter server: rank 1 has been silent for 8 s");
}

/// What a server is told besides; nothing of a real one is needed but that it can be read.
struct Besides {
  int ends[2] = {-1, -1};
  Besides() { EXPECT_EQ(::pipe(ends), 0); }
  ~Besides() {
    for (const int end : ends) ::close(end);
  }
  void tell() const { EXPECT_EQ(::write(ends[1], "!", 1), 1); }
  void take() const {
    char one = 0;
    EXPECT_EQ(::read(ends[0], &one, 1), 1);
  }
};

TEST_F(ServerConnections, give_up_a_rank_that_stops_amid_a_message_when_they_hear_that_it_is_lost) {
  connect();
  const Besides besides;
  ServerConnection& server = peers->of(1);
  server.expect_at_most(1 << 20);
  server.heed(besides.ends[0], [&] {
    besides.take();
    server.limit_silence(0.1);
  });
  // The head of a message with a payload that never comes.
  const std::vector<std::byte> head = server_frame({Kind::gradients, {5}}, 1 << 20);
  ASSERT_EQ(::send(worker->descriptor(), head.data(), head.size(), 0), std::ssize(head));
  auto wait = std::async(std::launch::async, [&] { return peers->next(); });
  EXPECT_EQ(wait.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout) << "it may be slow";
  besides.tell();
  const ServerPeers::Event event = wait.get();
  EXPECT_TRUE(event.gone);
  EXPECT_EQ(event.why, "has been silent for 0.1 s");
}

TEST_F(ServerConnections, wait_for_a_rank_that_takes_its_time_and_hear_meanwhile) {
  connect();
  const Besides besides;
  int heard = 0;
  peers->of(1).heed(besides.ends[0], [&] {
    besides.take();
    ++heard;
  });
  const std::vector<std::byte> payload = numbered(32 << 20);
  worker->expect_at_most(std::ssize(payload));
  auto sent = std::async(std::launch::async, [&] { peers->of(1).send({Kind::parameters}, payload); });
  besides.tell();
  EXPECT_EQ(sent.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout) << "more than the sockets hold";
  EXPECT_TRUE(std::ranges::equal(worker->receive().payload, payload));
  sent.get();
  EXPECT_EQ(heard, 1);
}

TEST_F(ServerConnections, that_wait_sleep) {
  connect();
  const auto used = [] {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  std::jthread sender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    worker->send({Kind::want});
  });
  const double before = used();
  peers->next();
  EXPECT_LT(used() - before, 0.05) << "seconds of a processor in 0.3 s";
}

TEST(ServerPorts, drop_strangers_and_name_ranks_that_do_not_come) {
  ServerAlarm alarm;
  ServerPort port("");
  const WatchAnnouncement announced = WatchAnnouncement::parse(port.announcement());
  std::jthread stranger([&] {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(announced.endpoints[0].port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
      const std::vector<std::byte> junk = numbered(200);
      [[maybe_unused]] const auto sent = ::send(socket, junk.data(), junk.size(), MSG_NOSIGNAL);
    }
    ::close(socket);
  });
  try {
    port.accept({1, 2}, alarm, 0.5);
    FAIL();
  } catch (const CommError& e) {
    EXPECT_STREQ(e.what(), "parameter server: ranks 1, 2 did not connect within 0.5 s");
  }
}

/// Connections come to it, and nobody answers.
WatchEndpoint silent_endpoint(const Descriptor& socket) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof to;
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&to), length), 0);
  EXPECT_EQ(::listen(socket.get(), 8), 0);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&to), &length), 0);
  return {"127.0.0.1", ntohs(to.sin_port)};
}

TEST(ServerPorts, are_found_beside_addresses_at_which_nobody_answers) {
  ServerAlarm server_alarm, worker_alarm;
  ServerPort port("");
  WatchAnnouncement announced = WatchAnnouncement::parse(port.announcement());
  const Descriptor first(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), second(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  announced.endpoints.insert(announced.endpoints.begin(), {silent_endpoint(first), silent_endpoint(second)});
  auto accepted = std::async(std::launch::async, [&] { return port.accept({1}, server_alarm, 10); });
  const auto worker = connect_to_server(1, 0, announced.text(), worker_alarm, 10);
  EXPECT_EQ(accepted.get().size(), 1u);
  EXPECT_EQ(worker->rank(), 0);
}

TEST(SharedRegions, are_not_seen_by_a_wrong_nonce_or_size) {
  const auto region = SharedRegion::make(10'000);
  ASSERT_TRUE(region);
  const std::vector<std::byte> nonce = numbered(16), other(16);
  std::ranges::copy(nonce, region->bytes().last(16).begin());
  SharedRegion::Place place = region->place();
  EXPECT_EQ(place.bytes, 12'288) << "whole pages";
  EXPECT_TRUE(see_region(place, nonce).first);
  EXPECT_FALSE(see_region(place, other).first);
  place.bytes += 4096;
  EXPECT_FALSE(see_region(place, nonce).first) << "what it claims to have and has not would be a fault at the first access";
  place = {.process = ::getpid(), .descriptor = 0, .bytes = 4096};
  EXPECT_FALSE(see_region(place, nonce).first);
  place = {.process = -5, .descriptor = 3, .bytes = 4096};
  EXPECT_FALSE(see_region(place, nonce).first);
}

}  // namespace
}  // namespace gemel::parallel
