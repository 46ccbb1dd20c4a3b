// Detection of the pointer files that git-lfs leaves in place of large files that were not fetched.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files/steady_file.h"

namespace gemel {

/// Message that says that the file is a git-lfs pointer, and how to fetch it; empty if it is not one. @param begin  first bytes of the file
std::string git_lfs_pointer(std::string_view begin);

std::string git_lfs_pointer(const SteadyFile& file);

/// Reads a file that a user names. @throws DataError as read_whole, and if the file is a git-lfs pointer
std::vector<std::byte> read_fetched(const std::filesystem::path& path);

}  // namespace gemel
