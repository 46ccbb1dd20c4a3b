// FolderLock: makes sure that only one run at a time writes into a folder.
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

/// A run's lock on a folder: a file that names host, process and start of the process, and that is renewed while this object lives. A lock is
/// stale, and the next run takes the folder, if its process on this machine has ended or the file was not renewed for a minute. Ages are measured
/// by the file system's clock, since clocks of hosts differ. A process in another container is judged by renewals alone.
/// Does not lock if the file system has no locks or the file cannot be written.
class FolderLock {
 public:
  /// @param op  purpose of the folder; begins the message, and each purpose has its own lock
  /// @throws DataError `OP: FOLDER is in use by another run, process 12 on HOST; accepted: a folder of its own`
  FolderLock(const std::filesystem::path& folder, std::string_view op);
  /// Removes the lock file.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Checks that the folder is free without locking it. @throws DataError as the constructor
  static void require_free(const std::filesystem::path& folder, std::string_view op);
  static std::filesystem::path file_in(const std::filesystem::path& folder, std::string_view op);

  static constexpr std::chrono::seconds kRenewal{10}, kOver{60};

 private:
  void renew(const std::stop_token& stop) const;
  std::filesystem::path file_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any stopped_;
  std::jthread renewing_;  // last member: destroyed before the others
};

}  // namespace gemel
