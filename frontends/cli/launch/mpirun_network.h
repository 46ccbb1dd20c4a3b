// Chooses the network interfaces for mpirun and its ranks, where Open MPI by itself would wait for ever.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/launch/launch_options.h"

namespace gemel::cli {

/// Returns why mpirun's processes on this machine cannot reach each other, or nothing.
std::optional<std::string> network_cannot();

/// Sets the interfaces for Open MPI unless the user has. It would else use those of containers and virtual machines.
/// @param hosts  of the job, which answer; empty: this machine
void choose_network(const std::vector<Host>& hosts);

}  // namespace gemel::cli
