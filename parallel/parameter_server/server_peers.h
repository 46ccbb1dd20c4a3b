// ServerPeers: the connections of a server, whose messages it waits for together.
#pragma once
#include <string>
#include <vector>

#include "parallel/parameter_server/server_connection.h"
#include "parallel/parameter_server/server_ports.h"

namespace gemel::parallel {

class ServerPeers {
 public:
  /// @param alarm  must outlive this object
  ServerPeers(ServerConnections connections, ServerAlarm& alarm) : connections_(std::move(connections)), alarm_(alarm) {}

  bool has(int rank) const { return connections_.contains(rank); }
  ServerConnection& of(int rank) { return *connections_.at(rank); }
  void drop(int rank) { connections_.erase(rank); }
  /// [rank], ascending.
  std::vector<int> ranks() const;

  struct Event {
    int rank = 0;
    bool gone = false;
    std::string why = {};          // it is gone
    ServerDelivery delivery = {};  // else
  };
  /// Sleeps until a rank sends a message or is gone; ranks take turns.
  /// @throws AbortedError; CommError for what is no message
  Event next();

 private:
  ServerConnections connections_;
  ServerAlarm& alarm_;
  int last_ = -1;  // heard last
};

}  // namespace gemel::parallel
