// Runs commands on the machines of a job by the program that mpirun uses: ssh, or the agent named by OMPI_MCA_plm_rsh_agent or PRTE_MCA_plm_ssh_agent.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/launch/launch_options.h"

namespace gemel::cli {

struct HostAnswer {
  std::string host;
  std::optional<int> status;  // of the command; nothing: it did not end in time
  std::string output;         // of both streams

  bool is_good() const { return status == 0; }
  std::string first_line() const;
  std::string why() const;  // last line of the output, or the reason of a failure
};

/// Tells if a name is this machine's or an address of one of its interfaces. May wait for a name server.
bool is_here(const std::string& host);

/// Runs a command on all machines at once; on this one without ssh. Returns after some seconds at most.
/// @return [host]
std::vector<HostAnswer> ask_hosts(const std::vector<Host>& hosts, const Arguments& command);

/// Names the agent in the environment for each version of Open MPI; each reads another variable.
void share_agent();

/// Returns the hosts that do not answer.
std::vector<HostAnswer> silent_hosts(const std::vector<Host>& hosts);
/// "host b does not answer: no answer within 5 s; host c does not answer: ..."
std::string text_of_silence(const std::vector<HostAnswer>& silent);
/// @throws Error naming hosts that do not answer
void require_answers(const std::vector<Host>& hosts);

}  // namespace gemel::cli
