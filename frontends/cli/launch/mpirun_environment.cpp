#include "frontends/cli/launch/mpirun_environment.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "engine/base/files/file.h"
#include "frontends/cli/launch/mpirun_network.h"

namespace gemel::cli {
namespace {

namespace fs = std::filesystem;

struct Origin {
  enum class Kind { scheduler, policy, outer_start } kind;
  std::string_view begin;  // of the variables' names
};

/// Open MPI 4 reads OMPI_MCA_..., the starter of 5 PRTE_MCA_... as well.
constexpr Origin kOrigins[] = {{Origin::Kind::scheduler, "SLURM_"},
                               {Origin::Kind::scheduler, "PBS_"},
                               {Origin::Kind::scheduler, "LSB_"},
                               {Origin::Kind::scheduler, "PE_HOSTFILE"},
                               {Origin::Kind::scheduler, "FLUX_"},
                               {Origin::Kind::policy, "OMPI_MCA_hwloc_base_"},
                               {Origin::Kind::policy, "OMPI_MCA_rmaps"},
                               {Origin::Kind::policy, "OMPI_MCA_ras"},
                               {Origin::Kind::policy, "OMPI_MCA_orte_default_hostfile"},
                               {Origin::Kind::policy, "OMPI_MCA_orte_rankfile"},
                               {Origin::Kind::policy, "OMPI_MCA_orte_allocation_required"},
                               {Origin::Kind::policy, "HWLOC_SYNTHETIC"},
                               {Origin::Kind::policy, "HWLOC_XMLFILE"},
                               {Origin::Kind::policy, "PRTE_MCA_hwloc_"},
                               {Origin::Kind::policy, "PRTE_MCA_rmaps"},
                               {Origin::Kind::policy, "PRTE_MCA_ras"},
                               {Origin::Kind::policy, "PRTE_MCA_prte_default_hostfile"},
                               {Origin::Kind::policy, "PRTE_MCA_default_hostfile"},
                               {Origin::Kind::outer_start, "OMPI_COMM_WORLD_"},
                               {Origin::Kind::outer_start, "OMPI_UNIVERSE_SIZE"},
                               {Origin::Kind::outer_start, "OMPI_MCA_ess"},
                               {Origin::Kind::outer_start, "OMPI_MCA_orte_ess_"},
                               {Origin::Kind::outer_start, "OMPI_MCA_orte_hnp_uri"},
                               {Origin::Kind::outer_start, "OMPI_MCA_orte_jobfam_session_dir"},
                               {Origin::Kind::outer_start, "OMPI_MCA_orte_launch"},
                               {Origin::Kind::outer_start, "OMPI_MCA_orte_local_daemon_uri"},
                               {Origin::Kind::outer_start, "OMPI_MCA_orte_top_session_dir"},
                               {Origin::Kind::outer_start, "PMIX_NAMESPACE"},
                               {Origin::Kind::outer_start, "PMIX_RANK"},
                               {Origin::Kind::outer_start, "PMIX_SERVER_"},
                               {Origin::Kind::outer_start, "PMI_"}};

std::vector<std::string> names_in_environment() {
  std::vector<std::string> out;
  for (char** one = environ; one && *one; ++one) out.push_back(std::string(*one).substr(0, std::string_view(*one).find('=')));
  return out;
}

const Origin* origin_of(const std::string& name) {
  const auto* origin = std::ranges::find_if(kOrigins, [&](const Origin& o) { return name.starts_with(o.begin); });
  return origin == std::end(kOrigins) ? nullptr : origin;
}

}  // namespace

bool hides(const std::string& name) { return origin_of(name) != nullptr; }

std::vector<std::string> hide_other_placements() {
  std::vector<std::string> told;
  for (const std::string& name : names_in_environment()) {
    const Origin* origin = origin_of(name);
    if (!origin) continue;
    ::unsetenv(name.c_str());
    if (origin->kind == Origin::Kind::policy) told.push_back(name);
    if (origin->kind == Origin::Kind::scheduler) told.push_back(std::string(origin->begin) + (origin->begin.ends_with('_') ? "*" : ""));
  }
  std::ranges::sort(told);
  const auto doubles = std::ranges::unique(told);
  told.erase(doubles.begin(), doubles.end());
  // A site's file of settings may say it too.
  ::setenv("OMPI_MCA_rmaps_base_no_oversubscribe", "0", 1);
  ::setenv("OMPI_MCA_hwloc_base_cpu_list", "", 1);
  return told;
}

MpirunFolder folder_of_mpirun() {
  for (const char* variable : {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base", "TMPDIR", "TEMP", "TMP"})
    if (const char* folder = std::getenv(variable); folder && *folder) return {variable, folder};
  return {"TMPDIR", "/tmp"};
}

std::optional<std::string> folder_cannot(const MpirunFolder& folder) {
  constexpr std::uint64_t kLeast = std::uint64_t{12} << 20;  // bytes: seen to suffice for 16 ranks; with less ranks fail, or mpirun waits for ever
  fs::path there = fs::absolute(folder.path);
  std::error_code closed;
  while (there.has_relative_path() && !fs::exists(there, closed)) there = there.parent_path();
  std::string probe = (there / "gemel-launch-XXXXXX").string();
  struct statvfs room {};
  std::string why;
  if (::mkdtemp(probe.data()) == nullptr)
    why = fmt::format("cannot be written: {}", system_message(errno));
  else if (::rmdir(probe.c_str()) != 0 || ::statvfs(there.c_str(), &room) != 0)
    return std::nullopt;
  else if (room.f_bavail * room.f_frsize < kLeast)
    why = fmt::format("has {} MiB of room", (room.f_bavail * room.f_frsize) >> 20);
  if (why.empty()) return std::nullopt;
  return fmt::format("{}, where mpirun keeps its files, {}; accepted: a folder with {} MiB of room, which {} may name", folder.path.string(), why, kLeast >> 20,
                     folder.variable);
}

std::optional<std::string> mpirun_cannot() {
  constexpr rlim_t kLeastFiles = 64;  // mpirun has some 20 open, and more for each rank
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < kLeastFiles)
    return fmt::format("open files: their limit (ulimit -n) is {}; accepted: {} or more", files.rlim_cur, kLeastFiles);
  std::error_code gone;
  if (const fs::path here = fs::current_path(gone); gone)
    return fmt::format("the current folder: {}; accepted: one that is there", system_message(gone.value()));
  if (const auto why = folder_cannot(folder_of_mpirun())) return why;
  return network_cannot();
}

}  // namespace gemel::cli
