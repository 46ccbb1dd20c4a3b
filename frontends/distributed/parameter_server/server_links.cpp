#include "frontends/distributed/parameter_server/server_links.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "frontends/distributed/data_parallel.h"

namespace gemel::distributed {
namespace {

constexpr double kConnectSeconds = 10;

}  // namespace

ServerLinks link_servers(parallel::CommunicationThread& communication, parallel::ServerAlarm& alarm, const ParameterServerOptions& options,
                         const LinkedRank& self) {
  const int rank = communication.rank();
  const bool serves = options.is_server(rank);
  std::unique_ptr<parallel::ServerPort> port;
  if (serves) port = std::make_unique<parallel::ServerPort>(options.interface);
  const std::vector<std::string> announced = texts_of_ranks(communication, port ? port->announcement() : "");
  ServerLinks out;
  if (self.computes_on_host) out.cores = parallel::WorkerCores(communication.placement(), rank, options.servers, allowed_cores());
  for (int server = 0; server < (serves ? std::min(rank, 1) : options.servers); ++server)
    out.connections.emplace(server, parallel::connect_to_server(rank, server, announced[at(server)], alarm, kConnectSeconds));
  if (serves) {
    std::vector<int> others;
    for (int r = rank == 0 ? 1 : options.servers; r < options.ranks(); ++r) others.push_back(r);
    out.connections.merge(port->accept(others, alarm, kConnectSeconds));
  }
  for (auto& [other, connection] : out.connections) {
    if (serves && !options.is_server(other)) {
      HostBytes seen = connection->take_offer();
      if (seen.first && seen.bytes < WorkerMemory::bytes_for(self.pages))
        throw CommError(
            fmt::format("parameter server: rank {} offers {} bytes of memory; accepted: {}", other, seen.bytes, WorkerMemory::bytes_for(self.pages)));
      if (seen.first) out.memories.emplace(other, WorkerMemory(std::move(seen), self.pages));
    } else if (!serves && connection->offer(self.region)) {
      out.seen_by.insert(other);
    }
    connection->expect_at_most(self.takes);
  }
  return out;
}

void fail_without(int rank, const std::string& why, parallel::ServerAlarm& alarm) {
  constexpr double kKnownWithin = 2;
  alarm.wait_for_abort(kKnownWithin);
  throw CommError(fmt::format("parameter server: rank {} {}", rank, why));
}

}  // namespace gemel::distributed
