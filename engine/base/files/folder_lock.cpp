#include "engine/base/files/folder_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"

namespace gemel {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kTries = 10, kTriesOfOwner = 3;  // while another looks at the file; of an owner that may have been killed just before

/// Who holds a lock, as the file says.
struct Owner {
  std::string host, machine;  // its name, for people; the start of its system, and the space that processes are numbered in
  long process = 0;
  std::uint64_t started = 0;  // ticks of the system's clock
  friend bool operator==(const Owner&, const Owner&) = default;
};

std::string first_word_of(const char* file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

/// What /proc says of a process. None where it cannot be read.
struct ProcessState {
  bool ends = false;  // it writes no more, though it is there until all of its memory is freed, and then until its parent looks
  std::uint64_t started = 0;
};
std::optional<ProcessState> state_of(long process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == text.npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  const auto skip = [&](int count) {
    for (std::string skipped; count > 0; --count) fields >> skipped;
  };
  char state = '?';
  std::uint64_t flags = 0, started = 0;
  constexpr std::uint64_t kExiting = 4;  // PF_EXITING of the kernel
  fields >> state;                       // 3 of proc(5); the flags are 9, the start is 22
  skip(5);
  fields >> flags;
  skip(12);
  if (!(fields >> started)) return std::nullopt;
  return ProcessState{state == 'Z' || state == 'X' || (flags & kExiting) != 0, started};
}

Owner this_process() {
  std::error_code none;
  const fs::path numbers = fs::read_symlink("/proc/self/ns/pid", none);
  const auto state = state_of(::getpid());
  return {host_name(), first_word_of("/proc/sys/kernel/random/boot_id") + "/" + numbers.string(), ::getpid(), state ? state->started : 0};
}

bool lives(const Owner& owner) {
  if (::kill(static_cast<pid_t>(owner.process), 0) != 0 && errno != EPERM) return false;
  const auto state = state_of(owner.process);
  return !state || (state->started == owner.started && !state->ends);  // it is there, and hidden from others
}

std::string text_of(const Owner& o) {
  std::array<char, 32> now{};
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  std::strftime(now.data(), now.size(), "%Y-%m-%dT%H:%M:%SZ", ::gmtime_r(&seconds, &utc));
  return "host " + o.host + "\nmachine " + o.machine + "\nprocess " + std::to_string(o.process) + "\nstarted " + std::to_string(o.started) + "\nrenewed " +
         now.data() + "\n";
}

/// None where the text is no lock's: its writer was killed in the middle.
std::optional<Owner> owner_in(const std::string& text) {
  std::istringstream in(text);
  Owner o;
  std::string host, machine, process, started, renewed, when;
  if (!(in >> host >> o.host >> machine >> o.machine >> process >> o.process >> started >> o.started >> renewed >> when)) return std::nullopt;
  if (host != "host" || machine != "machine" || process != "process" || started != "started" || renewed != "renewed" || o.process <= 0) return std::nullopt;
  return o;
}

/// The lock's file, which nobody else looks at or changes while this lives.
class Opened {
 public:
  /// Empty where it is not there and not to be made, cannot be written, is no regular file, or the file system has no locks.
  static std::optional<Opened> at(const fs::path& path, int flags) {
    for (int i = 0; i < kTries; ++i) {
      Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0666));
      struct stat status {};
      if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
      if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
        if (::fstat(file.get(), &status) == 0 && status.st_nlink > 0) return Opened(std::move(file), path, status);
        continue;  // its owner removed it just before
      }
      if (errno != EWOULDBLOCK && errno != EINTR) {
        if (status.st_size == 0) ::unlink(path.c_str());  // made just now, to no purpose
        return std::nullopt;
      }
      std::this_thread::sleep_for(100ms);
    }
    return std::nullopt;
  }

  std::optional<Owner> owner() const {
    std::string text(std::size_t{4096}, '\0');
    const ssize_t got = ::pread(file_.get(), text.data(), text.size(), 0);
    return owner_in(text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
  }
  /// A renewal has room on a full disk too: it writes over what is there. A first text that has none is not left in part.
  void write(const Owner& owner_now) const {
    const std::string text = text_of(owner_now);
    const bool is_written = ::pwrite(file_.get(), text.data(), text.size(), 0) == std::ssize(text) && ::ftruncate(file_.get(), std::ssize(text)) == 0;
    if (!is_written && !owner()) remove();
  }
  void remove() const { ::unlink(path_.c_str()); }
  const fs::path& path() const { return path_; }
  /// Seconds since it was written, by the clock of the file system.
  double age() const {
    std::string name = path_.string() + "XXXXXX";
    const Descriptor now(::mkostemp(name.data(), O_CLOEXEC));
    if (now.get() < 0) return 0;
    ::unlink(name.c_str());
    struct stat status {};
    if (::fstat(now.get(), &status) != 0) return 0;
    return static_cast<double>(status.st_mtim.tv_sec - written_.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec - written_.tv_nsec);
  }

 private:
  Opened(Descriptor file, fs::path path, const struct stat& status) : file_(std::move(file)), path_(std::move(path)), written_(status.st_mtim) {}
  Descriptor file_;
  fs::path path_;
  timespec written_;
};

constexpr double kSkew = 60;  // seconds: clocks that differ by less are taken for the same

/// Why the folder is not to be had; empty where it is.
std::string why_not(const Opened& lock, const Owner& self) {
  const auto owner = lock.owner();
  if (!owner) return {};
  const bool is_here = owner->machine == self.machine;
  for (int i = 0; is_here && i < kTriesOfOwner; ++i) {
    if (i > 0) std::this_thread::sleep_for(50ms);
    if (!lives(*owner)) return {};
  }
  const double age = lock.age();
  if (age > std::chrono::duration<double>(FolderLock::kOver).count()) return {};
  const std::string who = "is in use by another run, process " + std::to_string(owner->process) + " on " + owner->host;
  if (is_here) return who + "; accepted: a folder of its own";
  if (age < -kSkew)
    return who + ", by a clock that is " + std::to_string(static_cast<std::int64_t>(-age)) +
           " s ahead of this one; accepted: a folder of its own, or this one without " + lock.path().string() + " where that run has ended";
  return who + ", heard of " + std::to_string(std::max<std::int64_t>(0, static_cast<std::int64_t>(age))) +
         " s ago; accepted: a folder of its own, or this one " + std::to_string(FolderLock::kOver.count()) + " s after that run's end";
}

/// @return nothing where there is no lock to look at  @throws DataError where somebody has it
std::optional<Opened> free_lock(const fs::path& file, const Owner& self, int flags, std::string_view op) {
  auto lock = Opened::at(file, flags);
  const std::string why = lock ? why_not(*lock, self) : "";
  if (!why.empty()) throw DataError(std::string(op) + ": " + file.parent_path().string() + " " + why);
  return lock;
}

}  // namespace

fs::path FolderLock::file_in(const fs::path& folder, std::string_view op) { return folder / (".gemel-" + std::string(op) + ".lock"); }

void FolderLock::require_free(const fs::path& folder, std::string_view op) { free_lock(file_in(folder, op), this_process(), 0, op); }

FolderLock::FolderLock(const fs::path& folder, std::string_view op) : file_(file_in(folder, op)) {
  const Owner self = this_process();
  const auto lock = free_lock(file_, self, O_CREAT, op);
  if (!lock) return;
  lock->write(self);
  renewing_ = std::jthread([this](const std::stop_token& stop) { renew(stop); });
}

void FolderLock::renew(const std::stop_token& stop) const {
  const Owner self = this_process();
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, stop, kRenewal, [] { return false; }) && !stop.stop_requested())
    if (const auto file = Opened::at(file_, 0); file && file->owner() == self) file->write(self);
}

FolderLock::~FolderLock() {
  renewing_ = {};
  if (const auto file = Opened::at(file_, 0); file && file->owner() == this_process()) file->remove();
}

}  // namespace gemel
