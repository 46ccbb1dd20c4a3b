// Ranks that are threads of one process: what `mirrored` and `dataparallel` run on, and the tests.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "parallel/transport/communicator.h"

namespace gemel::parallel {

/// One communicator a rank, each for a thread of its own. They may be destroyed in any order.
/// @param hosts  names of the machines that they pretend to run on; empty: one
/// @throws UsageError for fewer than one rank
std::vector<std::unique_ptr<Communicator>> thread_communicators(int ranks, std::vector<std::string> hosts = {});

/// Runs `work` once for each rank, each in a thread of its own, and waits for all. A rank that throws ends the waits of the others.
/// @throws what the first rank that failed threw
void run_ranks(int ranks, const std::function<void(Communicator&)>& work, std::vector<std::string> hosts = {});

}  // namespace gemel::parallel
