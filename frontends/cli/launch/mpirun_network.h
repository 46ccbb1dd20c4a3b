// The network interfaces of this machine that mpirun and its ranks are to use, where Open MPI left to itself would wait for ever.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/launch/launch_options.h"

namespace gemel::cli {

/// Why mpirun's processes of this machine cannot reach each other, or nothing.
std::optional<std::string> network_cannot();

/// Sets what Open MPI is to use, where nobody has: beside interfaces of containers and virtual machines, which it takes for networks.
/// @param hosts  of the job, which answer; empty: this machine
void choose_network(const std::vector<Host>& hosts);

}  // namespace gemel::cli
