// HttpServer: serves GET and HEAD, and a stream of events, to many clients in one thread. Slow, silent and hostile clients cost bounded memory and time.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "frontends/monitor/routes.h"

namespace gemel::monitor {

class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any free one
    std::size_t most_connections = 256;
    std::size_t most_streams = 128;                 // of these that wait for events
    std::size_t most_unsent_bytes = 64u << 20;      // of all answers together
    std::chrono::milliseconds request_time{15000};  // for a request to arrive, and for a connection to lie idle
    std::chrono::milliseconds answer_time{60000};   // for an answer to be taken
    std::chrono::milliseconds event_every{1000};    // at most one event in it
  };
  struct Content {
    std::function<bool(std::string_view host)> accepts_host;
    std::function<Response(std::string_view target)> answer;
    std::function<std::uint64_t()> version;  // at /events each client is told of a new one
  };

  /// Begins to listen. @throws DataError `monitor: cannot listen at 127.0.0.1:80: Permission denied`
  HttpServer(const Options& options, Content content);
  ~HttpServer();

  std::uint16_t port() const;
  /// Serves until `stop`.
  void run();
  /// From any thread.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gemel::monitor
