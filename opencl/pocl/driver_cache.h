// Private to opencl/: where PoCL keeps what it compiles.
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

/// Why a driver cannot compile into a folder.
struct Obstacle {
  int write_error = 0;  // the system's number where nothing can be written
  int load_error = 0;   // the same where what is written cannot be loaded
  explicit operator bool() const { return write_error != 0 || load_error != 0; }
  std::string why() const;
  std::string text(const std::filesystem::path& folder) const;
};
/// None where a file of a megabyte or two can be written in the folder, more than a kernel takes, the disk has room for some more, and what is written
/// can be loaded as code.
Obstacle obstacle_in(const std::filesystem::path& folder);

/// PoCL cannot run a kernel without a folder: it writes what it compiles there and loads it as code. It reads the folder's name once, from
/// POCL_CACHE_DIR as it starts, and where the folder is full or damaged it ends the process. So this names it one that can be relied on:
/// a KernelFolder beside our own cache, one for each build of the driver; or, where the user set POCL_CACHE_DIR, that folder as it is.
/// Where that one is full, now or later, or nothing can be loaded from it (noexec), or it cannot be used, the run says so and goes on in another that
/// goes with the process (in TMPDIR, /tmp, /var/tmp, XDG_RUNTIME_DIR or /dev/shm) and begins with links to what there was. PoCL is given the name
/// /proc/self/fd/N of an open folder, behind which another can be put while it runs.
class DriverCache {
 public:
  /// The process's, as PoCL is.
  static DriverCache& of_process();
  ~DriverCache();
  DriverCache(const DriverCache&) = delete;
  DriverCache& operator=(const DriverCache&) = delete;

  /// Finds a folder. Only the first call, which comes before OpenCL is touched, does anything.
  /// @throws DeviceError where the folder that GEMEL_CACHE_DIR names cannot be used
  void open();

  /// POCL_CACHE_DIR while PoCL starts: the processes that this one starts later find it as the user left it.
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

  /// Before anything is enqueued that PoCL may have to compile, which it does later and in a thread of its own: from now on, for some minutes,
  /// a thread of ours looks some times a second whether there is room, and goes elsewhere where there is none.
  /// @throws DeviceError where there is room nowhere
  void make_room();
  /// After a compilation that failed, which a disk that filled just before may be the reason for: likewise, at once.
  void look_again();
  /// After a compilation: takes what PoCL wrote into the folder's manifest.
  void note();
  /// What PoCL writes into; empty where that was left to itself.
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

  mutable std::mutex mutex_;  // of all that follows
  bool is_open_ = false, is_shown_ = false, is_watched_ = false;
  std::unique_ptr<KernelFolder> kept_;
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> temporary_;
  std::string no_room_;  // why there was room nowhere: PoCL cannot compile, other drivers may
  int owner_ = 0;        // the process that opened it
  int descriptor_ = -1;  // of the folder; open until the process ends, as PoCL's threads may be; a linker that PoCL starts inherits it
  std::string untold_;   // that another folder is used: of interest where PoCL compiles
  Clock::time_point asked_, looked_, tried_, noted_;
  std::condition_variable_any stopped_;
  std::jthread watcher_;  // ends before the others do
};

}  // namespace gemel::opencl
