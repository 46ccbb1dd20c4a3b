// Pointers that git-lfs leaves where a large file was not fetched.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files/steady_file.h"

namespace gemel {

/// Why a file of this beginning is not what it is called, with what is accepted; empty where it is no pointer.
std::string git_lfs_pointer(std::string_view begin);

/// The same of a file.
std::string git_lfs_pointer(const SteadyFile& file);

/// The content of a file that a user names. @throws DataError as read_whole, and for a pointer
std::vector<std::byte> read_fetched(const std::filesystem::path& path);

}  // namespace gemel
