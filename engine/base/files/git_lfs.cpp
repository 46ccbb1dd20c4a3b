#include "engine/base/files/git_lfs.h"

#include <algorithm>
#include <cstdint>

#include "engine/base/error.h"
#include "engine/base/files/file.h"

namespace gemel {
namespace {

/// The number of bytes that a pointer's line `size N` gives.
std::string_view size_in(std::string_view pointer) {
  const std::size_t at = pointer.find("\nsize ");
  if (at == std::string_view::npos) return "?";
  const std::string_view rest = pointer.substr(at + 6);
  return rest.substr(0, rest.find_first_not_of("0123456789"));
}

}  // namespace

std::string git_lfs_pointer(std::string_view begin) {
  if (!begin.starts_with("version https://git-lfs")) return "";
  return "it is a pointer of git-lfs to a file of " + std::string(size_in(begin)) + " bytes; accepted: that file, which `git lfs pull` fetches";
}

std::string git_lfs_pointer(const SteadyFile& file) {
  constexpr std::int64_t kMost = 512;  // a pointer has some 130
  std::vector<std::byte> begin(static_cast<std::size_t>(std::min(file.bytes(), kMost)));
  file.read(0, begin);
  return git_lfs_pointer(as_text(begin));
}

std::vector<std::byte> read_fetched(const std::filesystem::path& path) {
  std::vector<std::byte> content = read_whole(path);
  if (const std::string pointer = git_lfs_pointer(as_text(content)); !pointer.empty()) throw DataError(path.string() + ": " + pointer);
  return content;
}

}  // namespace gemel
