// Programs that this user may start.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gemel::cli {

/// In the order in which a shell looks.
std::vector<std::filesystem::path> programs_in_path(const std::string& name);
/// Where it is one that this user may start.
std::optional<std::filesystem::path> program_in(const std::filesystem::path& folder, const std::string& name);

}  // namespace gemel::cli
