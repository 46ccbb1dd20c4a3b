// Private to opencl/: the folder in which PoCL caches compiled kernels.
#pragma once
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "opencl/pocl/kernel_folder.h"

namespace gemel::opencl {

/// Reason why a driver cannot compile into a folder.
struct Obstacle {
  int write_error = 0;  // system error number if the folder cannot be written
  int load_error = 0;   // system error number if files in it cannot be loaded
  explicit operator bool() const { return write_error != 0 || load_error != 0; }
  std::string why() const;
  std::string text(const std::filesystem::path& folder) const;
};
/// Tests a folder. No obstacle if a file of a megabyte or two, more than a kernel takes, can be written, the disk has some more room, and the file can
/// be loaded as code.
Obstacle obstacle_in(const std::filesystem::path& folder);

/// The folder that PoCL compiles into. PoCL writes compiled kernels there and loads them as code; it reads the folder's name once, from POCL_CACHE_DIR
/// when it starts, and kills the process if the folder is full or damaged. This class therefore gives PoCL a KernelFolder beside Gemel's own cache, one
/// for each build of the driver, or, if the user set POCL_CACHE_DIR, that folder as it is.
/// If the folder is full, now or later, or is mounted noexec, or cannot be used, the run warns and continues in a temporary folder (in TMPDIR, /tmp,
/// /var/tmp, XDG_RUNTIME_DIR or /dev/shm) with links to the previous files. PoCL gets the name /proc/self/fd/N of an open folder, which can be
/// replaced while PoCL runs.
class DriverCache {
 public:
  /// The cache of the process; PoCL has one for the process, too.
  static DriverCache& of_process();
  ~DriverCache();
  DriverCache(const DriverCache&) = delete;
  DriverCache& operator=(const DriverCache&) = delete;

  /// Chooses the folder. Call before the first OpenCL call; later calls have no effect.
  /// @throws DeviceError if the folder that GEMEL_CACHE_DIR names cannot be used
  void open();

  /// Scope that sets POCL_CACHE_DIR while PoCL starts. Child processes started later see the value of the user.
  class Shown {
   public:
    explicit Shown(DriverCache& cache);
    ~Shown();
    Shown(const Shown&) = delete;
    Shown& operator=(const Shown&) = delete;

   private:
    bool first_;
    std::string before_;
  };

  /// Checks that there is room, and changes the folder if there is none. Call before work is enqueued that PoCL may have to compile. PoCL compiles later,
  /// in a thread of its own, so for some minutes a thread repeats the check several times a second.
  /// @throws DeviceError if no folder has room
  void make_room();
  /// Checks again at once. Call after a failed compilation, which a full disk may have caused.
  void look_again();
  /// Adds the files that PoCL wrote to the manifest of the folder. Call after a compilation.
  void note();
  /// The folder that PoCL writes into; empty if PoCL chooses by itself.
  std::filesystem::path folder() const;

 private:
  using Clock = std::chrono::steady_clock;
  DriverCache() = default;
  void use_kept_folder();
  void use_users_folder();
  void use(const std::filesystem::path& folder);
  void leave(const Obstacle& obstacle);
  void leave(const std::string& why);
  void note_if_grown();
  void look();
  void tell();
  void watch(const std::stop_token& stop);

  mutable std::mutex mutex_;  // protects the members below
  bool is_open_ = false, is_shown_ = false, is_watched_ = false;
  std::unique_ptr<KernelFolder> kept_;
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> temporary_;
  std::string no_room_;  // reason why no folder has room: PoCL cannot compile, other drivers may
  int owner_ = 0;        // id of the process that opened it
  int descriptor_ = -1;  // of the folder; open until the process ends, because PoCL's threads may use it; inherited by the linker that PoCL starts
  std::string untold_;   // pending warning that another folder is used; printed when PoCL compiles
  Clock::time_point asked_, looked_, tried_, noted_;
  std::condition_variable_any stopped_;
  std::jthread watcher_;  // last member: destroyed before the others
};

}  // namespace gemel::opencl
