// Private to opencl/: KernelFolder, a folder of compiled kernels that PoCL writes and loads as code. PoCL does not check the files: a torn or changed
// file would crash the process.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>

#include "engine/base/files/descriptor.h"

namespace gemel::opencl {

/// Guarantees that the driver loads only files that are as they were when a run had finished writing them.
/// A manifest holds inode, size, times and checksum of each file. Opening the folder deletes files that differ from the manifest. It also deletes files
/// that the manifest does not list, which a killed compilation left, unless another process uses the folder and may be writing them.
/// Checksums are compared only if inode, size or a time differs (including the time of change of the inode, which no copy or writer can set), or if the
/// machine was restarted since, which may have lost data that was not on the disk.
/// A process that crashes in the code of a kernel writes the name of the kernel to a mark, and the next process to open the folder deletes that
/// kernel. Any other end of a process loses only files that were not in the manifest yet.
/// Several processes may use one folder; each holds a lock while this object lives. Without file locks other processes are assumed to use it.
class KernelFolder {
 public:
  /// Creates the folder if it is missing, and checks its files.
  /// @throws std::system_error if it cannot be used: it belongs to another user, is not writable, or has no room
  explicit KernelFolder(std::filesystem::path folder);
  /// Adds new files to the manifest. Removes temporary files, which PoCL leaves, if no other process uses the folder.
  ~KernelFolder();
  KernelFolder(const KernelFolder&) = delete;
  KernelFolder& operator=(const KernelFolder&) = delete;

  /// Resolution of file times: a file that changed less than this ago may change again without a new time.
  static constexpr std::chrono::milliseconds kTick{50};

  const std::filesystem::path& path() const { return folder_; }
  /// Adds files that the driver has written to the manifest. If the manifest cannot be written, the next process to open the folder deletes them.
  void note();
  /// True if there may be new files. PoCL first writes each file at the top of the folder, which changes the time of the folder.
  bool may_have_grown() const;
  std::filesystem::path manifest() const { return folder_ / "manifest"; }
  /// File with the names of kernels that crashed, one on each line.
  std::filesystem::path crash_mark() const { return folder_ / "crashed"; }

 private:
  enum class Use { alone, shared };
  void check(Use use) const;
  void remove_crashed() const;
  std::filesystem::path folder_;
  std::int64_t looked_through_ns_ = 0;  // time of change of the folder at the last `note`
  Descriptor in_use_{-1};
};

}  // namespace gemel::opencl
