// Folders that one run at a time writes into.
#pragma once
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace gemel {

/// A run's claim on a folder: a file in it that names host, process and the process's start, and whose time is renewed while this lives. Its run is
/// over, and the next one takes the folder, where the process is gone from this machine, or the file was not renewed for a minute: by the file
/// system's own clock, as those of two hosts differ. (A process of another container is known by its renewals alone, also on this machine.)
/// Where the file system has no locks, or the file cannot be written, the folder is everybody's.
class FolderLock {
 public:
  /// @param op  what the folder is for, which begins the message: each has a lock of its own
  /// @throws DataError `OP: FOLDER is in use by another run, process 12 on HOST; accepted: a folder of its own`
  FolderLock(const std::filesystem::path& folder, std::string_view op);
  /// Removes the file.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Throws as the constructor does, and takes nothing.
  static void require_free(const std::filesystem::path& folder, std::string_view op);
  static std::filesystem::path file_in(const std::filesystem::path& folder, std::string_view op);

  static constexpr std::chrono::seconds kRenewal{10}, kOver{60};

 private:
  void renew(const std::stop_token& stop) const;
  std::filesystem::path file_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any stopped_;
  std::jthread renewing_;  // ends before the others do
};

}  // namespace gemel
