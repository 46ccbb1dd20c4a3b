// RecordTree: the run.jsonl below a folder. No symbolic link is followed, so nothing outside the folder is ever opened.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/files/descriptor.h"

namespace gemel::monitor {

/// A file as the system sees it now.
struct FileState {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t written_ns = 0;  // since 1970
  friend bool operator==(const FileState&, const FileState&) = default;
};

class RecordTree {
 public:
  static constexpr std::size_t kMostRecords = 100000;
  static constexpr int kDeepest = 64;  // folders below one another

  /// @throws DataError if the folder cannot be opened
  explicit RecordTree(const std::filesystem::path& folder);
  /// Paths of the records below the folder, sorted. What cannot be read is passed over. @param stops  ends the search early
  std::vector<std::string> search(const std::function<bool()>& stops = [] { return false; }) const;
  /// Opens a regular file by its path below the folder. Empty if it is gone, no regular file, or behind a link.
  std::optional<Descriptor> open(const std::string& path) const;
  /// The folder's own absolute path.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  Descriptor descriptor_{-1};
};

/// @throws DataError if the system does not tell
FileState state_of(int descriptor);

}  // namespace gemel::monitor
