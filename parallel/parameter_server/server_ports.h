// How ranks of a parameter server find each other: a server listens, and says where; the others connect.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/parameter_server/server_connection.h"

namespace gemel::parallel {

using ServerConnections = std::map<int, std::unique_ptr<ServerConnection>>;  // by rank

class ServerPort {
 public:
  /// Listens. @param interface  name of a network interface; empty: all
  /// @throws CommError if it cannot
  explicit ServerPort(const std::string& interface);
  /// Token, addresses and port, in one line.
  const std::string& announcement() const { return announcement_; }
  /// Waits for these ranks, and then listens no more. Strangers are dropped.
  /// @throws CommError naming the ranks that did not connect within `seconds`; AbortedError
  ServerConnections accept(const std::vector<int>& ranks, ServerAlarm& alarm, double seconds);

 private:
  Descriptor socket_;
  std::string token_, announcement_;
};

/// Connects to a server by what it announced.
/// @param self, server  ranks
/// @throws CommError naming the addresses if none answers within `seconds`
std::unique_ptr<ServerConnection> connect_to_server(int self, int server, const std::string& announcement, ServerAlarm& alarm, double seconds);

}  // namespace gemel::parallel
