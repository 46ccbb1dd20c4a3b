// Finds programs that this user may run.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gemel::cli {

/// Returns the programs of that name in PATH, in the order in which a shell looks.
std::vector<std::filesystem::path> programs_in_path(const std::string& name);
/// Returns the program in a folder if this user may run it.
std::optional<std::filesystem::path> program_in(const std::filesystem::path& folder, const std::string& name);

}  // namespace gemel::cli
