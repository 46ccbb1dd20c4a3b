// The machines of a job, asked by what mpirun reaches them with: ssh, or the agent that OMPI_MCA_plm_rsh_agent or PRTE_MCA_plm_ssh_agent names.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/launch/launch_options.h"

namespace gemel::cli {

struct HostAnswer {
  std::string host;
  std::optional<int> status;  // of the command; nothing: it did not end in time
  std::string output;         // of both its streams

  bool is_good() const { return status == 0; }
  std::string first_line() const;
  std::string why() const;  // it is not: what was said last
};

/// Whether it names this machine: by its name, or an address of one of its interfaces. It may wait for a name server.
bool is_here(const std::string& host);

/// Runs a command on each machine, on all at once; on this one without ssh. Returns some seconds later at most.
/// @return [host]
std::vector<HostAnswer> ask_hosts(const std::vector<Host>& hosts, const Arguments& command);

/// Names the agent in the environment to each version of Open MPI, of which each reads a variable of its own.
void share_agent();

/// Those that do not answer.
std::vector<HostAnswer> silent_hosts(const std::vector<Host>& hosts);
/// "host b does not answer: no answer within 5 s; host c does not answer: ..."
std::string text_of_silence(const std::vector<HostAnswer>& silent);
/// @throws Error that names those that do not answer
void require_answers(const std::vector<Host>& hosts);

}  // namespace gemel::cli
