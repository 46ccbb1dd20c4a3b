// gemel doctor: environment variables of schedulers and launchers that affect mpirun and ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "frontends/cli/doctor/health_check.h"
#include "opencl/device/device.h"
#include "parallel/transport/mpi_communicator.h"

namespace gemel::cli {
namespace {

using Names = std::vector<std::string_view>;

/// Who sets variables for the processes that it starts.
struct Setter {
  const char* name;
  Names prefixes;   // of all its variables
  Names job;        // those that make others take a process for a part of a job
  Names processes;  // above each process of a live job
};

// clang-format off
const std::vector<Setter> kSchedulers{
    {"SLURM", {"SLURM_", "SLURMD_"},
     {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_PROCID"}, {"slurmstepd", "salloc", "srun", "sbatch"}},
    {"PBS", {"PBS_"}, {"PBS_JOBID", "PBS_NODEFILE"}, {"pbs_mom", "pbs_attach", "qsub"}},
    {"LSF", {"LSB_", "LS_JOBPID"}, {"LSB_JOBID", "LSB_HOSTS", "LSB_MCPU_HOSTS", "LSB_DJOB_HOSTFILE"}, {"res", "sbatchd", "bsub"}},
    {"Grid Engine", {"SGE_", "PE_HOSTFILE"}, {"PE_HOSTFILE", "SGE_JOB_SPOOL_DIR"}, {"sge_shepherd", "sge_execd", "qrsh"}},
    {"Flux", {"FLUX_"}, {"FLUX_JOB_ID"}, {"flux-shell"}}};

const Names kStarters{"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "prte", "mpiexec.hydra", "hydra_pmi_proxy", "slurmstepd", "srun", "flux-shell"};
const std::vector<Setter> kLaunchers{
    {"Open MPI", {"OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "PMIX_"},
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMIX_NAMESPACE"}, kStarters},
    {"PMI", {"PMI_"}, {"PMI_RANK", "PMI_SIZE", "PMI_FD"}, kStarters}};
// clang-format on

/// What a user sets for all jobs.
bool is_setting(const std::string& name) { return name == "SLURM_CONF" || name.starts_with("PMIX_MCA_") || name.find("_MCA_") != std::string::npos; }

std::vector<std::string> variables_of(const Setter& setter) {
  return variables([&](const std::string& name) {
    return !is_setting(name) && std::ranges::any_of(setter.prefixes, [&](std::string_view p) { return name.starts_with(p); });
  });
}

/// Names of the processes above this one.
std::vector<std::string> ancestors() {
  std::vector<std::string> out;
  for (pid_t process = ::getppid(); process > 1;) {
    std::ifstream stat(fmt::format("/proc/{}/stat", process));
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    const auto open = text.find('('), close = text.rfind(')');
    if (close == std::string::npos) break;
    out.push_back(text.substr(open + 1, close - open - 1));
    process = std::atoi(text.c_str() + close + 4);  // ") S 1234": its parent
  }
  return out;
}

bool is_alive(const Setter& setter) {
  return std::ranges::any_of(ancestors(), [&](const std::string& name) { return std::ranges::find(setter.processes, name) != setter.processes.end(); });
}

/// The first of its variables that speaks of a job; empty where none is set.
std::string job_variable(const Setter& setter) {
  for (const std::string_view name : setter.job)
    if (::getenv(std::string(name).c_str())) return std::string(name);
  return "";
}

Finding left_overs(const std::vector<Setter>& setters, Health health, const char* effect) {
  std::vector<std::string> alive, stale, unset;
  for (const Setter& s : setters) {
    const std::string variable = job_variable(s);
    if (variable.empty()) continue;
    const std::string text = fmt::format("{} ({}={})", s.name, variable, opencl::from_environment(variable.c_str()));
    (is_alive(s) ? alive : stale).push_back(text);
    if (stale.empty() || stale.back() != text) continue;
    for (const std::string& name : variables_of(s)) unset.push_back(name);
  }
  if (!stale.empty())
    return {health, fmt::format("variables of {} without a job of it: {}", fmt::join(stale, " and "), effect), fmt::format("unset {}", fmt::join(unset, " "))};
  return {Health::ok, alive.empty() ? "none" : fmt::format("this process is of a job of {}", fmt::join(alive, " and "))};
}

Finding scheduler() { return left_overs(kSchedulers, Health::odd, "mpirun by itself takes their hosts and slots for its own; gemel launch hides them"); }

/// A run needs its rank and the number of ranks; by one of the two it takes itself for no rank. It is refused where they make no sense.
bool runs_as_rank() {
  try {
    return parallel::mpi_launch().has_value();
  } catch (const CommError&) {
    return true;
  }
}

Finding rank_variables() {
  if (runs_as_rank()) return left_overs(kLaunchers, Health::wrong, "a run takes itself for a rank of a job that is not there");
  return left_overs(kLaunchers, Health::odd, "a run takes itself for no rank by them; another program may");
}

/// Lines of a file that say something.
std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::vector<std::string> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (const auto begin = line.find_first_not_of(" \t"); begin != std::string::npos && line[begin] != '#') out.push_back(line.substr(begin));
  return out;
}

/// What a site or a user has set for all jobs of Open MPI. A policy of binding or mapping speaks against what `gemel launch` asks for.
Finding mpi_settings() {
  const auto is_policy = [](const std::string& text) {
    return text.find("binding_policy") != std::string::npos || text.find("mapping_policy") != std::string::npos || text.find("rmaps") != std::string::npos;
  };
  std::vector<std::string> parts, policies;
  for (const std::string& name : variables(is_mpi_setting)) {
    parts.push_back(fmt::format("{}={}", name, opencl::from_environment(name.c_str())));
    if (is_policy(name)) policies.push_back(name);
  }
  const std::string home = opencl::from_environment("HOME");
  for (const std::string& file : {std::string("/etc/openmpi/openmpi-mca-params.conf"), home + "/.openmpi/mca-params.conf", home + "/.prte/mca-params.conf"})
    if (const auto lines = lines_of(file); !lines.empty()) parts.push_back(fmt::format("{}: {}", file, fmt::join(lines, ", ")));
  if (parts.empty()) return {Health::ok, "none"};
  const std::string text = fmt::format("{}", fmt::join(parts, ", "));
  if (policies.empty()) return {Health::ok, text};
  return {Health::odd, fmt::format("{}; mpirun by itself places ranks by {}; gemel launch hides them", text, fmt::join(policies, " and ")),
          fmt::format("unset {}", fmt::join(policies, " "))};
}

}  // namespace

bool is_rank_of_live_job() {
  return std::ranges::any_of(kLaunchers, [](const Setter& s) { return !job_variable(s).empty() && is_alive(s); });
}

std::vector<Check> scheduler_checks() { return {{"scheduler", scheduler}, {"rank-variables", rank_variables}, {"mpi-settings", mpi_settings}}; }

}  // namespace gemel::cli
