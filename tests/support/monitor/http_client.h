// A client that says what a test wants said, byte for byte.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "engine/base/files/descriptor.h"

namespace gemel::testing {

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, int receive_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0) ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    const timeval patience{20, 0};  // a test that would wait for ever fails
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) throw std::runtime_error("nobody listens");
  }
  /// False if the other side has closed.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const auto sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// What comes until the text is in it, or the other side closes. @throws std::runtime_error if it does neither for 20 seconds
  std::string receive_until(std::string_view end) {
    std::string out;
    char part[4096];
    while (out.find(end) == out.npos) {
      const auto got = ::recv(socket_.get(), part, sizeof part, 0);
      if (got < 0 && errno == EAGAIN) throw std::runtime_error("the server neither answers nor closes");
      if (got <= 0) break;
      out.append(part, static_cast<std::size_t>(got));
    }
    return out;
  }
  std::string receive_all() { return receive_until("\x01 never sent"); }
  void end_sending() { ::shutdown(socket_.get(), SHUT_WR); }

 private:
  Descriptor socket_;
};

/// All of the answer to one request whose connection ends with it.
inline std::string answer_to(std::uint16_t port, const std::string& target, const std::string& method = "GET", const std::string& host = "localhost") {
  HttpClient client(port);
  client.send(method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
  return client.receive_all();
}
inline int status_of(const std::string& answer) { return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3)); }
inline std::string body_of(const std::string& answer) {
  const auto at = answer.find("\r\n\r\n");
  return at == answer.npos ? "" : answer.substr(at + 4);
}

}  // namespace gemel::testing
