// What mpirun finds on this machine, and would be led astray by, or end or wait for without a word.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gemel::cli {

/// Takes from this process's environment, which mpirun inherits, what says otherwise than the launcher where ranks run: a scheduler's allocation, whose job may
/// be over; a site's or a user's policy of mapping and binding; an mpirun that has started this process.
/// @return what of it somebody has set, "SLURM_*" of a scheduler's many
std::vector<std::string> hide_other_placements();

/// Whether it takes a variable of this name.
bool hides(const std::string& name);

/// Where mpirun keeps its files.
struct MpirunFolder {
  std::string variable;  // that names it, or may
  std::filesystem::path path;
};
/// As Open MPI chooses it.
MpirunFolder folder_of_mpirun();
/// Why mpirun cannot keep its files there, or nothing. It makes folders that are missing.
std::optional<std::string> folder_cannot(const MpirunFolder& folder);

/// Why mpirun cannot start processes here, or nothing: the current folder is gone, files are few, it has no room for its files, or its processes cannot
/// reach each other.
std::optional<std::string> mpirun_cannot();

}  // namespace gemel::cli
