#include "engine/base/files/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"

namespace gemel {
namespace {

namespace fs = std::filesystem;

fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::status_known(status)) fail_on("read", "examine", path, error.value());
  return status;
}

/// Removes the temporary file unless it has become the real one.
class Temporary {
 public:
  explicit Temporary(fs::path path) : path_(std::move(path)) {}
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Temporary(Temporary&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Temporary& operator=(Temporary&&) = delete;
  const fs::path& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  fs::path path_;
};

constexpr std::string_view kTemporaryBegin = ".gemel-", kTemporaryEnd = ".tmp";

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// Removes what writers that were killed left in a folder. A living writer holds a lock on its temporary file.
void remove_abandoned(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kTemporaryBegin) || !name.ends_with(kTemporaryEnd)) continue;
    const Descriptor file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));  // NFS locks what is open for writing
    if (file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
  }
}

/// Locks a new file, unless another process took it for an abandoned one just before.
bool lock_new(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;  // a file system without locks
  struct stat status {};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

std::pair<Descriptor, Temporary> create_beside(const fs::path& path) {
  const fs::path folder = folder_of(path);
  remove_abandoned(folder);
  std::random_device entropy;
  for (;;) {
    const fs::path name = folder / (std::string(kTemporaryBegin) + std::to_string(entropy()) + std::to_string(entropy()) + std::string(kTemporaryEnd));
    Descriptor opened(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (opened.get() < 0 && errno != EEXIST) fail_on("write", "create a file for", path, errno);
    if (opened.get() >= 0 && lock_new(opened.get())) return {std::move(opened), Temporary(name)};
  }
}

/// The rename itself reaches the disk with its folder. Folders that cannot be flushed are left to the system.
void flush_folder(const fs::path& path) {
  const Descriptor opened(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() >= 0) ::fsync(opened.get());
}

/// The file that a chain of symbolic links ends at, whether it exists or not.
fs::path follow_links(const fs::path& path) {
  std::error_code none;
  if (const auto status = fs::status(path, none); fs::exists(status) && !fs::is_regular_file(status)) return path;  // "pipe:[7]" is no path
  fs::path at = path;
  for (int links = 0; links < 40; ++links) {  // as many as the system follows
    std::error_code error;
    if (!fs::is_symlink(at, error)) return at;
    const fs::path target = fs::read_symlink(at, error);
    if (error) fail_on("write", "follow the link", path, error.value());
    at = at.parent_path() / target;  // the target itself where it is absolute
  }
  fail_on("write", "follow the link", path, ELOOP);
}

/// The descriptor that a path such as /dev/stdout or /dev/fd/63 (a shell's process substitution) names: written as it is, since whoever gave it reads it
/// already and no file could be renamed over it.
std::optional<int> given_descriptor(const fs::path& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  if (path.parent_path() != "/dev/fd" && path.parent_path() != "/proc/self/fd") return {};
  const std::string name = path.filename().string();
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(number) : std::nullopt;
}

/// In a sticky folder, as /tmp is, only the owner of a file or of the folder, and root, may rename another over it.
bool is_kept_by_sticky_folder(const fs::path& target, const struct stat& status) {
  struct stat folder {};
  const uid_t user = ::geteuid();
  return ::stat(folder_of(target).c_str(), &folder) == 0 && (folder.st_mode & S_ISVTX) != 0 && user != 0 && user != status.st_uid && user != folder.st_uid;
}

/// What a file is renamed over is a file that may be replaced, or nothing. @param path  that errors name  @param status  of what is at the target
void require_replaceable(const fs::path& path, const fs::path& target, const struct stat& status) {
  const auto refuse = [&](const char* why) { throw DataError("write: cannot write " + path.string() + ": " + why + ", or a name that is free"); };
  if (S_ISDIR(status.st_mode)) fail_on("write", "write", path, EISDIR);
  if (!S_ISREG(status.st_mode)) refuse("it is no regular file; accepted: a regular file");
  if (is_kept_by_sticky_folder(target, status)) refuse("it is another user's, and its folder is sticky; accepted: a file of one's own");
}

}  // namespace

void fail_on(const char* op, const char* what, const fs::path& path, int error_number) {
  throw DataError(std::string(op) + ": cannot " + what + " " + path.string() + ": " + system_message(error_number));
}

Descriptor open_regular(const char* op, const fs::path& path, int flags) {
  constexpr mode_t kMode = 0666;
  // Without O_NONBLOCK, opening a pipe would wait for its other end before it can be refused.
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, kMode));
  if (file.get() < 0 && errno != ENXIO) fail_on(op, "open", path, errno);  // ENXIO: a pipe that nobody reads
  struct stat status {};
  if (file.get() >= 0 && ::fstat(file.get(), &status) != 0) fail_on(op, "examine", path, errno);
  if (file.get() < 0 || !S_ISREG(status.st_mode))
    throw DataError(std::string(op) + ": cannot open " + path.string() + ": it is " + (S_ISDIR(status.st_mode) ? "a folder" : "no regular file") +
                    "; accepted: a regular file");
  return file;
}

std::int64_t read_at(int descriptor, std::uint64_t offset, std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = ::pread(descriptor, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

bool is_there(const fs::path& path) { return fs::exists(status_of(path)); }
bool is_folder(const fs::path& path) { return fs::is_directory(status_of(path)); }

std::string system_message(int error_number) { return std::generic_category().message(error_number); }

std::vector<std::byte> read_whole(const fs::path& path) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  const Descriptor file = open_regular("read", path, O_RDONLY);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_on("read", "examine", path, errno);
  std::vector<std::byte> out(static_cast<std::size_t>(status.st_size));
  std::size_t filled = 0;
  for (ssize_t done = 1; done > 0 && filled < out.size();) {
    done = ::read(file.get(), out.data() + filled, std::min(out.size() - filled, kPiece));
    if (done < 0 && errno != EINTR) fail_on("read", "read", path, errno);
    if (done < 0)
      done = 1;
    else
      filled += static_cast<std::size_t>(done);
  }
  out.resize(filled);
  return out;
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB a call, and less when a signal comes or the disk fills.
    const ssize_t done = ::write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_on("write", "write", shown_, errno);
    written_ += done;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void check_can_write(const fs::path& path) {
  if (const auto given = given_descriptor(path)) {
    const int flags = ::fcntl(*given, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) fail_on("write", "write", path, EBADF);
    return;
  }
  const fs::path target = follow_links(path);
  struct stat status {};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (!exists && errno == ENAMETOOLONG) fail_on("write", "write", path, errno);  // the temporary file's name is short
  if (exists) require_replaceable(path, target, status);
  create_beside(target);
}

void write_file_atomically(const fs::path& path, const std::function<void(FileWriter&)>& fill) {
  if (const auto given = given_descriptor(path)) {
    std::fflush(nullptr);  // what was printed before stands before
    FileWriter writer(*given, path);
    return fill(writer);
  }
  const fs::path target = follow_links(path);
  struct stat status {};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (exists) require_replaceable(path, target, status);
  auto [file, temporary] = create_beside(target);
  if (exists && ::fchmod(file.get(), status.st_mode & 07777) != 0) fail_on("write", "set the mode of", path, errno);
  FileWriter writer(file.get(), path);
  fill(writer);
  if (::fsync(file.get()) != 0) fail_on("write", "write", path, errno);
  const Descriptor lock(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));  // goes on until the file has its name
  if (const int error = file.close()) fail_on("write", "write", path, error);
  if (::rename(temporary.path().c_str(), target.c_str()) != 0) fail_on("write", "rename a file to", path, errno);
  temporary.keep();
  flush_folder(target);
}

}  // namespace gemel
