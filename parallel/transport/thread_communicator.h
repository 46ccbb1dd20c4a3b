// The transport between ranks that are threads of one process; `mirrored`, `dataparallel` and tests use it.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "parallel/transport/communicator.h"

namespace gemel::parallel {

/// Makes one communicator a rank, each for a thread of its own. They may be destroyed in any order.
/// @param hosts  names of pretended machines; empty: one machine
/// @throws UsageError for fewer than one rank
std::vector<std::unique_ptr<Communicator>> thread_communicators(int ranks, std::vector<std::string> hosts = {});

/// Runs `work` for each rank in a thread of its own, and waits for all. A rank that throws ends the waits of the others.
/// @throws what the first failed rank threw
void run_ranks(int ranks, const std::function<void(Communicator&)>& work, std::vector<std::string> hosts = {});

}  // namespace gemel::parallel
