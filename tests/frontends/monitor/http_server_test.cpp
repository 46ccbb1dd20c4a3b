// The server among clients that mean it no good: it answers what is right, refuses what is not, and neither waits nor grows.
#include "frontends/monitor/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/monitor/http_client.h"

namespace gemel::monitor {
namespace {

using namespace gemel::testing;
using std::chrono::milliseconds;

/// KiB of memory that this process has in use.
long resident_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
  return 0;
}

class MonitorServer : public ::testing::Test {
 protected:
  void begin(HttpServer::Options options = {}) {
    server_ = std::make_unique<HttpServer>(options, HttpServer::Content{.accepts_host = [](std::string_view host) { return host.starts_with("localhost"); },
                                                                        .answer = [this](std::string_view target) { return answer(target); },
                                                                        .version = [this] { return version_.load(); }});
    thread_ = std::thread([this] { server_->run(); });
  }
  Response answer(std::string_view target) {
    ++asked_;
    if (target == "/") return {200, "text/plain", "good"};
    if (target == "/large") return {200, "text/plain", std::string(8 << 20, 'x')};
    if (target == "/throws") throw DataError("secret");
    return plain(404, "none");
  }
  ~MonitorServer() override {
    if (!server_) return;
    server_->stop();
    thread_.join();
  }
  std::uint16_t port() const { return server_->port(); }
  int status(const std::string& target, const std::string& method = "GET", const std::string& host = "localhost") const {
    return status_of(answer_to(port(), target, method, host));
  }
  /// The first line's status where these bytes are sent as they are; 0 where nothing comes back.
  int status_of_bytes(const std::string& bytes) const {
    HttpClient client(port());
    client.send(bytes);
    client.end_sending();
    return status_of(client.receive_all());
  }
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  std::atomic<std::uint64_t> version_ = 1;
  std::atomic<int> asked_ = 0;
};

TEST_F(MonitorServer, a_request_is_answered_with_headers_that_keep_others_out) {
  begin();
  const std::string all = answer_to(port(), "/");
  EXPECT_EQ(status_of(all), 200);
  EXPECT_EQ(body_of(all), "good");
  for (const char* header : {"Content-Security-Policy: default-src 'none'", "X-Content-Type-Options: nosniff", "Cross-Origin-Resource-Policy: same-origin",
                             "Cache-Control: no-store"})
    EXPECT_NE(all.find(header), std::string::npos) << header;
  EXPECT_EQ(all.find("Access-Control"), std::string::npos);
}

TEST_F(MonitorServer, requests_of_one_connection_are_answered_in_order) {
  begin();
  HttpClient client(port());
  client.send(
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string all = client.receive_all();
  EXPECT_EQ(status_of(all), 200);
  const auto second = all.find("HTTP/1.1", 8), third = all.find("HTTP/1.1", second + 8);
  EXPECT_EQ(status_of(all.substr(second)), 200);
  EXPECT_EQ(body_of(all.substr(second, third - second)), "") << "HEAD has no body";
  EXPECT_EQ(status_of(all.substr(third)), 404);
}

TEST_F(MonitorServer, other_methods_bodies_and_hosts_are_refused_before_anything_is_asked) {
  begin();
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "PROPFIND"}) EXPECT_EQ(status("/", method), 405) << method;
  EXPECT_EQ(status("/", "GET", "evil.example"), 421);
  EXPECT_EQ(status_of_bytes("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of_bytes("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n"), 400);
  EXPECT_EQ(status_of_bytes("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"), 413);
  EXPECT_EQ(status_of_bytes("GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 413);
  EXPECT_EQ(status_of_bytes("no request at all\r\n\r\n"), 400);
  EXPECT_EQ(status_of_bytes("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(100000, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(status_of_bytes("GET /" + std::string(100000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n"), 431);
  EXPECT_EQ(asked_, 0);
  const std::string thrown = answer_to(port(), "/throws");
  EXPECT_EQ(status_of(thrown), 500);
  EXPECT_EQ(thrown.find("secret"), std::string::npos);
  EXPECT_EQ(status("/"), 200);
}

TEST_F(MonitorServer, a_method_that_writes_is_refused_as_such_whatever_its_body) {
  begin();
  const std::string large(3 << 20, 'b');
  for (const std::string& body :
       {std::string("Content-Length: 0\r\n\r\n"), std::string("Content-Length: 5\r\n\r\nhello"), std::string("Content-Length: 99999999999\r\n\r\nhello"),
        std::string("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        "Content-Length: " + std::to_string(large.size()) + "\r\n\r\n" + large.substr(0, 200000)})
    for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "BREW"}) {
      HttpClient client(port());
      client.send(std::string(method) + " / HTTP/1.1\r\nHost: localhost\r\n" + body);
      client.end_sending();
      const std::string all = client.receive_all();
      EXPECT_EQ(status_of(all), 405) << method << " " << body.substr(0, 60);
      EXPECT_NE(all.find("\r\nAllow: GET, HEAD\r\n"), std::string::npos) << all;
      EXPECT_EQ(body_of(all), "this is read-only; accepted: GET, HEAD\n");
    }
  EXPECT_EQ(asked_, 0);
  EXPECT_EQ(status("/"), 200);
}

TEST_F(MonitorServer, fifty_clients_hear_of_every_new_version) {
  begin({.event_every = milliseconds(10)});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  for (auto& client : clients) EXPECT_NE(client->receive_until("data: 1\n\n").find("text/event-stream"), std::string::npos);
  version_ = 77;
  for (auto& client : clients) EXPECT_NE(client->receive_until("data: 77\n\n").find("data: 77"), std::string::npos);
  EXPECT_EQ(status("/"), 200);
}

TEST_F(MonitorServer, streams_and_connections_have_a_bound_and_newcomers_push_the_silent_out) {
  begin({.most_connections = 20, .most_streams = 3});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    clients.back()->receive_until("data: 1\n\n");
  }
  EXPECT_EQ(status("/events"), 503);
  const std::string head = answer_to(port(), "/events", "HEAD");
  EXPECT_TRUE(status_of(head) == 200 && head.find("Content-Type: text/event-stream") != head.npos) << head;
  for (int i = 0; i < 200; ++i) {  // half open: a request that never ends
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->send("GET / HTTP/1.1\r\nHos");
  }
  EXPECT_EQ(status("/"), 200);
  version_ = 2;
  EXPECT_NE(clients[0]->receive_until("data: 2\n\n").find("data: 2"), std::string::npos) << "a stream that is followed stays";
}

TEST_F(MonitorServer, a_request_that_does_not_end_is_given_up) {
  begin({.request_time = milliseconds(50)});
  HttpClient client(port());
  client.send("GET / HTTP/1.1\r\nHost: loc");
  EXPECT_EQ(client.receive_all(), "");  // within the client's patience, or it throws
}

TEST_F(MonitorServer, readers_that_do_not_read_are_given_up_and_take_no_more_than_the_bound) {
  begin({.most_unsent_bytes = 32 << 20, .answer_time = milliseconds(300)});
  status("/large");  // what the allocator takes once
  const long before = resident_kib();
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port(), 4096));
    clients.back()->send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  status("/");  // comes after theirs
  EXPECT_LT(resident_kib() - before, 100 << 10) << "40 answers of 8 MiB were wanted, 32 MiB and one more may wait";
  int there = 0;
  for (int i = 0; i < 400 && there != 200; ++i) {
    there = status("/");
    if (there != 200) std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(there, 200);
}

TEST_F(MonitorServer, hostile_requests_change_nothing) {
  begin({.most_connections = 64, .request_time = milliseconds(2000)});
  const int count = testing::is_full_run() ? 10000 : 300;
  const long before = resident_kib();
  std::mt19937 random(7);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  const std::vector<std::string> paths{"/../../../etc/passwd",
                                       "/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
                                       "/..%c0%af..%c0%afetc/passwd",
                                       "//../..//etc/passwd",
                                       "/link/run.jsonl",
                                       "/%00",
                                       "/api/about?run=..%2f..",
                                       "/" + std::string(9000, '.'),
                                       "/\xff\xfe",
                                       "http://evil/",
                                       "/api/curves?of=" + std::string(3000, ',')};
  const std::vector<std::string> methods{"GET", "POST", "HEAD", "DELETE", "BREW", "get", ""};
  std::vector<std::unique_ptr<HttpClient>> open;
  for (int i = 0; i < count; ++i) {
    std::string request =
        methods[below(7)] + " " + paths[below(static_cast<int>(paths.size()))] + " HTTP/" + std::to_string(below(3)) + ".1\r\nHost: localhost\r\n";
    for (int k = below(60); k > 0; --k) request += "X-" + std::to_string(k) + ": " + std::string(below(400), 'y') + "\r\n";
    request += "\r\n";
    switch (below(5)) {
      case 0:
        request.resize(below(static_cast<int>(request.size())));
        break;
      case 1:
        request[below(static_cast<int>(request.size()))] = static_cast<char>(below(256));
        break;
      case 2:
        for (char& c : request) c = static_cast<char>(below(256));
        break;
      default:
        break;
    }
    auto client = std::make_unique<HttpClient>(port());
    client->send(request);
    if (below(3) == 0) {
      open.push_back(std::move(client));  // and never reads
      if (open.size() > 100) open.erase(open.begin());
    } else {
      client->end_sending();
      const int got = status_of(client->receive_all());
      EXPECT_TRUE(got == 0 || got == 200 || (got >= 400 && got <= 503)) << got;
    }
  }
  EXPECT_EQ(status("/"), 200);
  EXPECT_LT(resident_kib() - before, 64 << 10);
}

TEST(MonitorServerPort, that_is_taken_or_no_address_is_an_error_that_names_it) {
  const HttpServer::Content content{[](std::string_view) { return true; }, [](std::string_view) { return Response(); }, [] { return std::uint64_t{0}; }};
  const HttpServer first({}, content);
  EXPECT_NE(message_of<DataError>([&] {
              HttpServer({.port = first.port()}, content);
            }).find(fmt::format("monitor: cannot listen at 127.0.0.1 port {}", first.port())),
            std::string::npos);
  EXPECT_NE(message_of<DataError>([&] { HttpServer({.address = "nowhere"}, content); }).find("monitor: cannot listen at nowhere"), std::string::npos);
}

}  // namespace
}  // namespace gemel::monitor
