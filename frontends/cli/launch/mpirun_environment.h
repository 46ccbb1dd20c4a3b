// Checks and cleans the environment of mpirun on this machine, which could mislead it, or make it end or wait without a message.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gemel::cli {

/// Removes variables from this process's environment, which mpirun inherits, that contradict the launcher's placement of ranks: a scheduler's allocation, whose
/// job may be over; a site's or a user's policy of mapping and binding; an mpirun that started this process.
/// @return what was removed and had been set by someone, such as "SLURM_*"
std::vector<std::string> hide_other_placements();

/// Tells if hide_other_placements removes a variable of this name.
bool hides(const std::string& name);

/// The folder in which mpirun keeps its files.
struct MpirunFolder {
  std::string variable;  // that names it, or may
  std::filesystem::path path;
};
/// Returns the folder that Open MPI chooses.
MpirunFolder folder_of_mpirun();
/// Returns why mpirun cannot keep its files in a folder, or nothing. Missing folders are made by mpirun.
std::optional<std::string> folder_cannot(const MpirunFolder& folder);

/// Returns why mpirun cannot start processes here, or nothing: the current folder is gone, too few files may be open, its folder has no room, or its processes
/// cannot reach each other.
std::optional<std::string> mpirun_cannot();

}  // namespace gemel::cli
