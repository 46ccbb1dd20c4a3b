// Private to opencl/: a folder of compiled kernels that a driver writes by itself and trusts when it reads. PoCL loads what lies there as code:
// a file that is torn or changed would end the process.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>

#include "engine/base/files/descriptor.h"

namespace gemel::opencl {

/// What is promised: the driver meets only files that are as they were when a run of ours had finished writing them.
/// A manifest holds the inode, size, times and checksum of each file; one that PoCL replaced is noted anew. Whoever opens the folder compares:
/// what differs is deleted, and what the manifest does not know too, unless another process is using the folder, whose work it may be. So what a
/// killed compilation left is swept.
/// Inodes, sizes and times are compared first and checksums only where those differ (the time of the last change of a file's inode among them,
/// which no copy and no writer sets) or where the machine has started since, which may have lost what was not on the disk yet.
/// A process that a fault ends in a kernel's code names the kernel in a mark, and the next to open the folder deletes that one. Of a process that ended
/// in any other way what it had not finished is gone, and what was noted of its work stays.
/// Several processes may use one at once; each holds a lock as long as this lives. Where the file system has no locks nobody is known to be alone.
class KernelFolder {
 public:
  /// Makes it where it is missing. @throws std::system_error where it cannot be used: of another user, not writable, no room
  explicit KernelFolder(std::filesystem::path folder);
  /// Notes what is new, and removes temporary files where no other process is at it: PoCL leaves one each time.
  ~KernelFolder();
  KernelFolder(const KernelFolder&) = delete;
  KernelFolder& operator=(const KernelFolder&) = delete;

  /// Files that changed less than this ago may change again without another time of change.
  static constexpr std::chrono::milliseconds kTick{50};

  const std::filesystem::path& path() const { return folder_; }
  /// Takes what the driver has written since into the manifest. Where that cannot be written, the next to open the folder deletes it.
  void note();
  /// Whether there may be something to note: PoCL writes each file beside the folders first, which changes the time of this one.
  bool may_have_grown() const;
  std::filesystem::path manifest() const { return folder_ / "manifest"; }
  /// Names of files in the folder, a line each.
  std::filesystem::path crash_mark() const { return folder_ / "crashed"; }

 private:
  enum class Use { alone, shared };
  void check(Use use) const;
  void remove_crashed() const;
  std::filesystem::path folder_;
  std::int64_t looked_through_ns_ = 0;  // the folder's time of change when it was last noted
  Descriptor in_use_{-1};
};

}  // namespace gemel::opencl
