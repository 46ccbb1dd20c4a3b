#include "opencl/pocl/kernel_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"
#include "engine/base/files/file.h"
#include "engine/base/files/record_file.h"
#include "engine/base/hash.h"
#include "opencl/device/warn.h"

namespace gemel::opencl {
namespace {

namespace fs = std::filesystem;

constexpr const char *kLock = "in_use", *kTurn = "turn";
constexpr const char* kMagic = "gemel-kernels-2";

[[noreturn]] void fail(const fs::path& path, const char* what, int error) {
  throw std::system_error(error, std::generic_category(), path.string() + " " + what);
}

void take_away(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail(path, "cannot be removed", error.value());
}

/// For writing: NFS locks nothing else, and no folders.
Descriptor open_to_lock(const fs::path& file) { return Descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)); }

/// @return whether it is locked; not where another process holds it and `how` waits for none, or where the file system has no locks
bool lock(const Descriptor& file, int how) {
  while (::flock(file.get(), how) != 0)
    if (errno != EINTR) return false;
  return true;
}

/// A turn at the manifest for as long as this lives; that of a process which ends is over. Without locks all take theirs at once: as the manifest is
/// replaced as a whole, one may then lack what another noted just now, which is compiled again.
Descriptor turn_in(const fs::path& folder) {
  Descriptor turn = open_to_lock(folder / kTurn);
  lock(turn, LOCK_EX);
  return turn;
}

/// Tells whether a file is as it was without reading it. `bytes` below 0: it tells nothing, and the file is read.
struct Stamp {
  std::int64_t inode = 0, bytes = -1, modified_ns = 0, changed_ns = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

std::int64_t nanoseconds(const timespec& t) { return std::int64_t{1'000'000'000} * t.tv_sec + t.tv_nsec; }
/// Of a file that changed just now the inode alone: it may change again before the file system's clock, of some milliseconds, ticks.
Stamp stamp_of(const struct stat& s) {
  const auto inode = static_cast<std::int64_t>(s.st_ino);
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (nanoseconds(now) - nanoseconds(s.st_ctim) < std::chrono::nanoseconds(KernelFolder::kTick).count()) return {.inode = inode};
  return {inode, s.st_size, nanoseconds(s.st_mtim), nanoseconds(s.st_ctim)};
}

struct Entry {
  Stamp stamp;
  std::uint64_t checksum = 0;
};
using Entries = std::unordered_map<std::string, Entry>;  // by path in the folder

/// Names the time since the machine started.
std::string start_of_machine() {
  std::string name = "unknown";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  return name;
}

/// A line for each file. Those that are damaged are left out, and so are their files.
Entries read_entries(const fs::path& manifest) {
  Entries entries;
  std::error_code none;
  if (!fs::exists(manifest, none)) return entries;
  std::istringstream in;
  try {
    in.str(std::string(as_text(read_whole(manifest))));
  } catch (const DataError&) {
    return entries;  // what it knew is unknown now
  }
  std::string magic, start;
  if (!(in >> magic >> start) || magic != kMagic) return {};
  const bool stands = start == start_of_machine();
  std::string line;
  for (std::getline(in, line); std::getline(in, line);) {
    Entry e;
    int path = 0;  // where it begins
    constexpr const char* kLine = "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNx64 " %n";
    Stamp& s = e.stamp;
    if (std::sscanf(line.c_str(), kLine, &s.inode, &s.bytes, &s.modified_ns, &s.changed_ns, &e.checksum, &path) != 5) continue;
    if (!stands) s.bytes = -1;
    entries[line.substr(static_cast<std::size_t>(path))] = e;
  }
  return entries;
}

std::string line_of(const std::string& path, const Entry& e) {
  return fmt::format("{} {} {} {} {:016x} {}\n", e.stamp.inode, e.stamp.bytes, e.stamp.modified_ns, e.stamp.changed_ns, e.checksum, path);
}

void write_entries(const fs::path& manifest, const Entries& entries) {
  std::string text = fmt::format("{} {}\n", kMagic, start_of_machine());
  for (const auto& [path, e] : entries) text += line_of(path, e);
  write_file_atomically(manifest, [&](FileWriter& out) { out.write(text); });
}

/// Behind an end of line, as the last one may be torn. Of two lines for a file the later one counts.
void append_entries(const fs::path& manifest, const std::string& lines) {
  RecordFile(open_regular("kernel cache", manifest, O_WRONLY | O_APPEND), manifest).append("\n" + lines);
}

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// What no run reads again: PoCL's temporary files, which it renames when they are whole, and ours.
bool is_temporary(std::string_view path) {
  const std::string_view name = name_of(path);
  return name.starts_with("temp") || name.starts_with(".gemel-") || name.find(".temp") != std::string_view::npos;
}

/// Files that hold no compiled kernel: PoCL's empty mark of a use, and our own.
bool is_no_kernel(std::string_view in_folder) {
  const std::string_view name = name_of(in_folder);
  if (name == "last_accessed") return true;
  return name == in_folder && (name == kLock || name == kTurn || name == "manifest" || name == "crashed" || name == "gemel.lock");
}

struct Found {
  const fs::path& path;
  std::string in_folder;
  struct stat status {};
};

/// Empty where the file cannot be read.
std::optional<std::uint64_t> checksum_of(const Found& found) {
  std::string bytes(static_cast<std::size_t>(found.status.st_size), '\0');
  std::ifstream in(found.path, std::ios::binary);
  if (!in.read(bytes.data(), std::ssize(bytes))) return std::nullopt;
  return hash_of(bytes);
}

/// A folder of PoCL's has a name without a point; one with it is in the place of a file, which PoCL would end the process over.
bool is_for_files(const Found& found) {
  return S_ISDIR(found.status.st_mode) && name_of(found.in_folder).find('.') == std::string_view::npos && !is_no_kernel(found.in_folder);
}

/// What is in the folder and may hold a kernel, or is none of PoCL's. @throws std::system_error where not all of it can be read
void each_file(const fs::path& folder, const std::function<void(const Found&)>& visit) {
  const std::size_t skip = folder.native().size() + 1;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    Found found{it->path(), it->path().native().substr(skip)};
    if (::lstat(found.path.c_str(), &found.status) != 0 || is_for_files(found)) continue;
    it.disable_recursion_pending();
    if (is_no_kernel(found.in_folder) && S_ISREG(found.status.st_mode)) continue;  // a pipe of that name would have PoCL wait for a reader
    visit(found);
  }
  if (error) fail(folder, "cannot be read", error.value());
}

}  // namespace

KernelFolder::KernelFolder(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(folder_, "cannot be made", error.value());
  struct stat status {};
  if (::stat(folder_.c_str(), &status) != 0) fail(folder_, "cannot be examined", errno);
  if (status.st_uid != ::geteuid()) fail(folder_, "belongs to another user", EPERM);
  in_use_ = open_to_lock(folder_ / kLock);
  if (in_use_.get() < 0) fail(folder_, "cannot be written", errno);
  const bool alone = lock(in_use_, LOCK_EX | LOCK_NB);
  if (!alone) lock(in_use_, LOCK_SH);  // when whoever has it alone has looked through it
  check(alone ? Use::alone : Use::shared);
  if (alone) lock(in_use_, LOCK_SH);
}

KernelFolder::~KernelFolder() {
  note();
  if (::flock(in_use_.get(), LOCK_EX | LOCK_NB) != 0) return;  // others are still at it
  try {
    each_file(folder_, [](const Found& found) {
      std::error_code ignored;
      if (is_temporary(found.in_folder)) fs::remove(found.path, ignored);
    });
  } catch (const std::system_error&) {
    // The next run looks through it again.
  }
}

void KernelFolder::remove_crashed() const {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(crash_mark(), error))) return;
  std::ifstream mark(crash_mark());
  for (std::string name; std::getline(mark, name);) {
    const fs::path kernel = fs::path(name).lexically_normal();
    struct stat status {};
    if (kernel.empty() || kernel.is_absolute() || *kernel.begin() == ".." || ::lstat((folder_ / kernel).c_str(), &status) != 0 || !S_ISREG(status.st_mode))
      continue;
    warn(fmt::format("kernel cache: an earlier run crashed in {}; it is compiled again", (folder_ / kernel).string()));
    take_away(folder_ / kernel);
  }
  take_away(crash_mark());
}

void KernelFolder::check(Use use) const {
  const Descriptor turn = turn_in(folder_);
  const bool alone = use == Use::alone;
  remove_crashed();
  const Entries known = read_entries(manifest());
  Entries whole;
  int damaged = 0;
  bool restamped = false;
  each_file(folder_, [&](const Found& found) {
    const auto it = known.find(found.in_folder);
    if (it == known.end() || !S_ISREG(found.status.st_mode)) {
      if (alone || !S_ISREG(found.status.st_mode)) take_away(found.path);
      return;
    }
    Entry entry = it->second;
    const Stamp stamp = stamp_of(found.status);
    if (entry.stamp != stamp || stamp.bytes < 0) {
      if (checksum_of(found) != entry.checksum) {
        take_away(found.path);
        ++damaged;
        return;
      }
      entry.stamp = stamp;
      restamped = true;
    }
    whole.emplace(found.in_folder, entry);
  });
  if (damaged > 0) warn(fmt::format("kernel cache: {} of {} files in {} were damaged; they are compiled again", damaged, known.size(), folder_.string()));
  if (!restamped && whole.size() == known.size()) return;
  try {
    write_entries(manifest(), whole);
  } catch (const DataError&) {
    // On a full disk the old one stands: it knows more than there is, and checksums are compared again.
  }
}

bool KernelFolder::may_have_grown() const {
  struct stat status {};
  const timespec& changed = status.st_mtim;
  return ::stat(folder_.c_str(), &status) != 0 || nanoseconds(changed) != looked_through_ns_;
}

void KernelFolder::note() {
  try {
    struct stat status {};
    looked_through_ns_ = ::stat(folder_.c_str(), &status) == 0 ? stamp_of(status).modified_ns : 0;  // 0 where it may change again without another time
    const Descriptor turn = turn_in(folder_);
    const Entries known = read_entries(manifest());
    Entries now;
    std::string fresh;
    std::size_t met = 0;  // of the known ones
    each_file(folder_, [&](const Found& found) {
      if (is_temporary(found.in_folder) || !S_ISREG(found.status.st_mode)) return;
      const auto it = known.find(found.in_folder);
      met += it != known.end();
      // PoCL puts a new file in the place of another; one that was written to where it lies keeps the checksum that tells of it. (Where the file
      // system gives a new file the number of one that is gone, it is compiled once more.)
      if (it != known.end() && it->second.stamp.inode == stamp_of(found.status).inode) {
        now.insert(*it);
      } else if (const auto checksum = checksum_of(found)) {
        const Entry entry{stamp_of(found.status), *checksum};
        fresh += line_of(found.in_folder, entry);
        now[found.in_folder] = entry;
      }
    });
    if (known.empty() ? !now.empty() : met != known.size())
      write_entries(manifest(), now);
    else if (!fresh.empty())
      append_entries(manifest(), fresh);
  } catch (const std::exception&) {
    // It is a cache: the next run compiles again.
  }
}

}  // namespace gemel::opencl
