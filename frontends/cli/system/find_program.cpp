#include "frontends/cli/system/find_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <system_error>

namespace gemel::cli {

std::optional<std::filesystem::path> program_in(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path file = folder / name;
  std::error_code none;
  if (folder.empty() || ::access(file.c_str(), X_OK) != 0 || std::filesystem::is_directory(file, none)) return std::nullopt;
  return file;
}

std::vector<std::filesystem::path> programs_in_path(const std::string& name) {
  std::vector<std::filesystem::path> out;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const auto found = program_in(folder, name); found && std::ranges::find(out, *found) == out.end()) out.push_back(*found);
  return out;
}

}  // namespace gemel::cli
