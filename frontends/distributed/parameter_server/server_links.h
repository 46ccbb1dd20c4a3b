// ServerLinks: the connections of a rank to the servers, and of a server to its workers.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "frontends/distributed/parameter_server/worker_memory.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/parameter_server/server_peers.h"
#include "parallel/parameter_server/staleness.h"
#include "parallel/parameter_server/worker_cores.h"

namespace gemel::distributed {

/// Ranks 0 to servers - 1 are servers, the others workers. The same on every rank but for the functions.
struct ParameterServerOptions {
  int servers = 1, workers = 1;
  parallel::UpdateRule rule{};
  std::string interface = {};  // network interface of the servers; empty: all are tried
  /// Called on server 0 when no rank needs others any more but by messages of the parameter server. @return whether the job can go on without a worker
  std::function<bool()> begins = {};
  /// Called on server 0 when it goes on without a worker.
  std::function<void(int rank, const std::string& why)> lost = {};
  /// Called on every rank while it makes progress, with what it waits for next.
  std::function<void(const std::string& waiting_for)> progress = {};

  bool is_server(int rank) const { return rank < servers; }
  int ranks() const { return servers + workers; }
  /// Parts of a batch, and gradients of a synchronous step.
  int parts() const { return workers - rule.backup; }
};

/// How the ranks meet, and how their waits end.
struct ServerMeans {
  parallel::CommunicationThread& communication;  // used to connect alone
  std::shared_ptr<parallel::ServerAlarm> alarm;
};

struct ServerLinks {
  parallel::ServerConnections connections;  // of a worker: to the servers; of a server: to all that connect to it, or server 0
  std::map<int, WorkerMemory> memories{};   // of a server: [worker] of those whose memory it sees
  std::set<int> seen_by{};                  // of a worker: servers that see its memory
  parallel::WorkerCores cores{};            // of this rank's machine, if its device computes on them
};

struct LinkedRank {
  std::int64_t takes = 0;                          // the largest payload that this rank takes, in bytes
  std::int64_t pages = 0;                          // of all parameters, in bytes
  const parallel::SharedRegion* region = nullptr;  // of a worker: memory to offer, which must outlive the connections; null: none
  bool computes_on_host = false;                   // its device
};
/// Connects the ranks. Collective.
ServerLinks link_servers(parallel::CommunicationThread& communication, parallel::ServerAlarm& alarm, const ParameterServerOptions& options,
                         const LinkedRank& self);

/// Throws what ended the job, as soon as the job knows, or else that this rank is gone.
[[noreturn]] void fail_without(int rank, const std::string& why, parallel::ServerAlarm& alarm);

}  // namespace gemel::distributed
