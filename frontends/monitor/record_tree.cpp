#include "frontends/monitor/record_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/files/file.h"

namespace gemel::monitor {
namespace {

constexpr std::string_view kRecord = "run.jsonl";
constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

struct Search {
  const std::function<bool()>& stops;
  std::vector<std::string> found;

  /// @param folder  open; is closed  @param path  of it below the top, with a slash behind it, or empty
  void look_into(int folder, const std::string& path, int depth) {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(folder), ::closedir);
    if (!entries) {
      ::close(folder);
      return;
    }
    while (const dirent* entry = ::readdir(entries.get())) {
      if (stops() || found.size() >= RecordTree::kMostRecords) return;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      unsigned char type = entry->d_type;
      if (type == DT_UNKNOWN) {  // some file systems leave it to stat
        struct stat s {};
        if (::fstatat(::dirfd(entries.get()), entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0) continue;
        type = S_ISDIR(s.st_mode) ? DT_DIR : S_ISREG(s.st_mode) ? DT_REG : DT_LNK;
      }
      if (type == DT_REG && name == kRecord) found.push_back(path + std::string(name));
      if (type != DT_DIR || depth == RecordTree::kDeepest) continue;
      const int below = ::openat(::dirfd(entries.get()), entry->d_name, kFolder);
      if (below >= 0) look_into(below, path + std::string(name) + "/", depth + 1);
    }
  }
};

}  // namespace

RecordTree::RecordTree(const std::filesystem::path& folder) : folder_(folder) {
  descriptor_ = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor_.get() < 0) fail_on("monitor", "open the folder", folder, errno);
  folder_ = std::filesystem::canonical(folder);
}

std::vector<std::string> RecordTree::search(const std::function<bool()>& stops) const {
  Search search{stops, {}};
  const int top = ::openat(descriptor_.get(), ".", kFolder);
  if (top >= 0) search.look_into(top, "", 0);
  std::ranges::sort(search.found);
  return std::move(search.found);
}

std::optional<Descriptor> RecordTree::open(const std::string& path) const {
  Descriptor at(-1);
  std::size_t begin = 0;
  for (;;) {
    const auto slash = path.find('/', begin);
    const std::string name = path.substr(begin, slash - begin);
    if (name.empty() || name == "." || name == "..") return std::nullopt;
    const bool is_last = slash == path.npos;
    const int flags = is_last ? O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC : kFolder;
    at = Descriptor(::openat(begin == 0 ? descriptor_.get() : at.get(), name.c_str(), flags));
    if (at.get() < 0) return std::nullopt;
    if (is_last) break;
    begin = slash + 1;
  }
  struct stat s {};
  if (::fstat(at.get(), &s) != 0 || !S_ISREG(s.st_mode)) return std::nullopt;
  return at;
}

FileState state_of(int descriptor) {
  struct stat s {};
  if (::fstat(descriptor, &s) != 0) throw DataError("monitor: cannot examine a run's record: " + system_message(errno));
  constexpr std::int64_t kSecond = 1000000000;
  return {s.st_dev, s.st_ino, static_cast<std::uint64_t>(s.st_size), s.st_mtim.tv_sec * kSecond + s.st_mtim.tv_nsec};
}

}  // namespace gemel::monitor
