// The file that a run of hours is for, where it cannot be written after all.
#pragma once
#include <filesystem>
#include <functional>
#include <span>

namespace gemel::cli {

/// Writes a file; where that fails, writes it under a name of its own into the first of the other folders that takes it.
/// @param write   writes what it is, to any path  @param others  empty paths are passed over
/// @throws DataError what failed, and where the file lies instead
void write_with_fallback(const std::filesystem::path& file, std::span<const std::filesystem::path> others,
                         const std::function<void(const std::filesystem::path&)>& write);

}  // namespace gemel::cli
