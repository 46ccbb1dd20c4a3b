#include "frontends/cli/run/fallback_write.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "engine/base/error.h"

namespace gemel::cli {
namespace {

namespace fs = std::filesystem;

/// @return whether it lies there; nothing that is there already is written over
bool lies_in(const fs::path& path, const std::function<void(const fs::path&)>& write) {
  std::error_code none;
  if (fs::exists(fs::symlink_status(path, none))) return false;
  try {
    write(path);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace

void write_with_fallback(const fs::path& file, std::span<const fs::path> others, const std::function<void(const fs::path&)>& write) {
  try {
    write(file);
  } catch (const DataError& e) {
    constexpr std::size_t kMost = 200;  // so that it fits into a file's name together with what stands before it
    const std::string given = file.filename().string(),
                      name = fmt::format("rescued-{}-{}", ::getpid(), given.substr(given.size() - std::min(given.size(), kMost)));
    for (const fs::path& folder : others)
      if (const fs::path place = folder / name; !folder.empty() && lies_in(place, write))
        throw DataError(fmt::format("{}; it is in {} instead", e.what(), place.string()));
    throw DataError(fmt::format("{}; no other folder took it", e.what()));
  }
}

}  // namespace gemel::cli
