#include "opencl/pocl/driver_cache.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"
#include "engine/base/files/file.h"
#include "engine/base/hash.h"
#include "opencl/device/device.h"
#include "opencl/device/icd_loader.h"
#include "opencl/device/warn.h"
#include "opencl/handle.h"
#include "opencl/pocl/driver_signals.h"
#include "opencl/program/program_cache.h"

namespace gemel::opencl {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::int64_t kRoom = 2 << 20;     // bytes: of Gemel's kernels none takes a fifth
constexpr std::int64_t kMargin = 16 << 20;  // that others may fill before we look again
constexpr std::chrono::milliseconds kLook = 50ms, kTry = 500ms, kNote = 5s;
constexpr auto kCompiling = 10min;  // at most, behind the last that was enqueued
constexpr std::time_t kYoung = 60;  // seconds
constexpr const char* kVariable = "POCL_CACHE_DIR";
constexpr const char* kTemporary = "gemel-kernels-";

/// Of the whole disk: a user's quota may be used up before. A file system that counts no blocks is not full.
bool is_nearly_full(const fs::path& folder) {
  struct statvfs disk {};
  return ::statvfs(folder.c_str(), &disk) == 0 && disk.f_blocks > 0 && static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize) < kMargin;
}

/// Of the disk and not of the folder's name, so that a run does without whoever named it.
bool is_of_disk(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EROFS; }

/// What is compiled is loaded as code, which a file system that is mounted noexec, or a policy of the system, forbids.
/// @return zero, or the system's error number
int load_error_of(const Descriptor& file) {
  constexpr std::size_t kByte = 1;
  void* const code = ::mmap(nullptr, kByte, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  if (code == MAP_FAILED) return errno;
  ::munmap(code, kByte);
  return 0;
}

/// An open file without a name; where the file system has none such it has one for a moment, beside the files of drivers.
Descriptor nameless_in(const fs::path& folder) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string name = (folder / "tempfile_roomXXXXXX").string();
  file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file.get() >= 0) ::unlink(name.c_str());
  return file;
}

/// The size and time of the library that a loader's file names: of that path, or beside the loader itself.
std::string build_of(const std::string& library) {
  Dl_info loader{};
  fs::path path = library;
  if (!path.has_parent_path() && ::dladdr(reinterpret_cast<void*>(&clGetPlatformIDs), &loader) != 0) path = fs::path(loader.dli_fname).parent_path() / library;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  return fmt::format("{} {}.{}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

/// Names PoCL's build, as far as can be known before it starts.
std::string driver_build() {
  std::uint64_t hash = hash_of("");
  for (const DriverFile& driver : installed_drivers(drivers_place()))
    if (driver.library.find("pocl") != std::string::npos) hash = hash_of(driver.library + " " + build_of(driver.library), hash);
  return fmt::format("{:016x}", hash);
}

/// Folders in which one that goes with the process may be made, the likeliest first.
std::vector<fs::path> temporary_places() {
  std::vector<fs::path> places;
  for (const fs::path& place :
       {fs::path(from_environment("TMPDIR")), fs::path("/tmp"), fs::path("/var/tmp"), fs::path(from_environment("XDG_RUNTIME_DIR")), fs::path("/dev/shm")})
    if (!place.empty() && std::ranges::find(places, place) == places.end()) places.push_back(place);
  return places;
}

Descriptor open_folder(const fs::path& folder) { return Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY)); }

/// Removes the folders of processes that were killed: a living one holds a lock on its own.
void remove_abandoned(const fs::path& place) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(place, error)) {
    struct stat status {};
    if (!entry.path().filename().string().starts_with(kTemporary) || ::lstat(entry.path().c_str(), &status) != 0 || status.st_uid != ::geteuid()) continue;
    if (::time(nullptr) - status.st_mtim.tv_sec < kYoung) continue;  // whoever made it may not have locked it yet
    const Descriptor folder = open_folder(entry.path());
    std::error_code ignored;
    if (folder.get() >= 0 && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), ignored);
  }
}

/// @throws DeviceError listing the places and what each lacks
fs::path make_temporary() {
  std::string refused;
  for (const fs::path& place : temporary_places()) {
    remove_abandoned(place);
    std::string name = fmt::format("{}/{}XXXXXX", place.string(), kTemporary);
    const Obstacle obstacle = ::mkdtemp(name.data()) ? obstacle_in(name) : Obstacle{.write_error = errno};
    if (!obstacle) return name;
    ::rmdir(name.c_str());
    refused += fmt::format("{}{}: {}", refused.empty() ? "" : ", ", place.string(), obstacle.why());
  }
  throw DeviceError(refused);
}

/// The same folders, with links to the files that are not there yet.
void link_all(const fs::path& from, const fs::path& to) {
  std::error_code error, ignored;
  for (auto it = fs::recursive_directory_iterator(from, error); !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const fs::path there = to / fs::relative(it->path(), from, ignored);
    if (it->is_directory(ignored))
      fs::create_directory(there, ignored);
    else
      fs::create_symlink(it->path(), there, ignored);  // PoCL renames what it writes, which replaces a link
  }
}

}  // namespace

std::string Obstacle::why() const {
  if (load_error == 0) return system_message(write_error);
  return fmt::format("nothing can be loaded from it as code, as where it is mounted noexec ({})", system_message(load_error));
}

std::string Obstacle::text(const fs::path& folder) const {
  return fmt::format("{}{}: {}", folder.string(), load_error == 0 ? " cannot be written" : "", why());
}

Obstacle obstacle_in(const fs::path& folder) {
  rlimit largest{};
  if (::getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < static_cast<rlim_t>(kRoom)) return {.write_error = EFBIG};
  if (is_nearly_full(folder)) return {.write_error = ENOSPC};
  const Descriptor file = nameless_in(folder);
  if (file.get() < 0) return {.write_error = errno};
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(file.get(), 0, kRoom);
  return {error, error == 0 ? load_error_of(file) : 0};
}

DriverCache& DriverCache::of_process() {
  static DriverCache cache;
  return cache;
}

DriverCache::~DriverCache() {
  if (is_open_ && ::getpid() != owner_) {  // a child of the process has neither its thread nor its folders
    if (watcher_.joinable()) watcher_.detach();
    [[maybe_unused]] const auto* parents = kept_.release();
    return;
  }
  watcher_ = {};
  std::error_code ignored;
  for (const fs::path& folder : temporary_) fs::remove_all(folder, ignored);
}

void DriverCache::open() {
  const std::lock_guard lock(mutex_);
  if (is_open_) return;
  take_signals_back();  // which are the program's own until now
  const bool is_users = !from_environment(kVariable).empty();
  try {
    if (is_users)
      use_users_folder();
    else
      use_kept_folder();
    const Obstacle obstacle = obstacle_in(folder_);
    if (obstacle.load_error != 0)
      leave(obstacle);
    else if (obstacle)
      throw std::system_error(obstacle.write_error, std::generic_category(), folder_.string() + " cannot be written");
  } catch (const std::system_error& e) {
    const bool goes_on = is_of_disk(e.code().value()) || (!is_users && from_environment("GEMEL_CACHE_DIR").empty());
    if (!goes_on && !is_users) throw DeviceError(fmt::format("GEMEL_CACHE_DIR: {}; accepted: a folder that can be written", e.what()));
    if (goes_on)
      leave(e.what());
    else
      folder_.clear();  // PoCL offers no device then, and selection says why
  }
  looked_ = tried_ = noted_ = Clock::now();
  owner_ = ::getpid();
  is_open_ = true;
}

void DriverCache::use_kept_folder() {
  const auto cache = ProgramCache::default_folder();
  if (!cache) throw std::system_error(ENOENT, std::generic_category(), "HOME names no folder");
  kept_ = std::make_unique<KernelFolder>(*cache / "pocl" / driver_build());
  use(kept_->path());
}

void DriverCache::use_users_folder() {
  const fs::path folder = from_environment(kVariable);
  std::error_code ignored;
  fs::create_directories(folder, ignored);  // as PoCL does
  use(folder);
}

void DriverCache::use(const fs::path& folder) {
  const Descriptor opened = open_folder(folder);
  if (opened.get() < 0) throw std::system_error(errno, std::generic_category(), folder.string() + " cannot be opened");
  if (descriptor_ < 0)
    descriptor_ = ::dup(opened.get());
  else
    ::dup2(opened.get(), descriptor_);
  folder_ = folder;
}

void DriverCache::leave(const Obstacle& obstacle) {
  const std::string why = obstacle.text(folder_);
  if (obstacle.load_error != 0) folder_.clear();  // what lies there is of no use through a link either
  leave(why);
}

void DriverCache::leave(const std::string& why) {
  try {
    const fs::path other = make_temporary(), before = folder_;
    if (!before.empty()) link_all(before, other);
    use(other);
    ::flock(descriptor_, LOCK_SH);
    if (!before.empty()) link_all(before, other);  // what PoCL began meanwhile
    temporary_.push_back(other);
    no_room_.clear();
    untold_ = fmt::format("kernel cache: {}; PoCL compiles into {}, which goes with this run", why, other.string());
  } catch (const std::exception& e) {
    no_room_ = fmt::format("kernel cache: {}, and no other folder can take what PoCL compiles ({}); accepted: room in one of them", why, worded(e));
  }
}

DriverCache::Shown::Shown(DriverCache& cache) {
  const std::lock_guard lock(cache.mutex_);
  first_ = !cache.folder_.empty() && !std::exchange(cache.is_shown_, true);
  if (!first_) return;
  before_ = from_environment(kVariable);
  ::setenv(kVariable, fmt::format("/proc/self/fd/{}", cache.descriptor_).c_str(), 1);
}

DriverCache::Shown::~Shown() {
  take_signals_back();
  if (!first_) return;
  if (before_.empty())
    ::unsetenv(kVariable);
  else
    ::setenv(kVariable, before_.c_str(), 1);
}

void DriverCache::make_room() {
  take_signals_back();
  const std::lock_guard lock(mutex_);
  asked_ = Clock::now();
  if (kept_) note_code_at_crash(kept_->path(), kept_->crash_mark());
  if (!folder_.empty()) look();
  tell();
  if (!no_room_.empty()) throw DeviceError(no_room_);
  if (!folder_.empty() && !std::exchange(is_watched_, true)) watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void DriverCache::look_again() {
  const std::lock_guard lock(mutex_);
  looked_ = tried_ = {};
  if (!folder_.empty()) look();
}

void DriverCache::note() {
  const std::lock_guard lock(mutex_);
  note_if_grown();
}

void DriverCache::note_if_grown() {
  if (!kept_ || (!kept_->may_have_grown() && Clock::now() - noted_ < kNote)) return;
  kept_->note();
  noted_ = Clock::now();
}

void DriverCache::look() {
  const auto now = Clock::now();
  if (now - looked_ < kLook) return;
  looked_ = now;
  note_if_grown();
  if (now - tried_ < kTry && !is_nearly_full(folder_)) return;
  tried_ = now;
  if (const Obstacle obstacle = obstacle_in(folder_))
    leave(obstacle);
  else
    no_room_.clear();  // again
}

void DriverCache::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, stop, kLook, [] { return false; }) && !stop.stop_requested() && Clock::now() - asked_ < kCompiling) {
    look();
    tell();
  }
  is_watched_ = false;
}

void DriverCache::tell() {
  if (!untold_.empty()) warn(std::exchange(untold_, {}));
}

fs::path DriverCache::folder() const {
  const std::lock_guard lock(mutex_);
  return folder_;
}

}  // namespace gemel::opencl
