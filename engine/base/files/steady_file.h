// SteadyFile: a file that must not change while it is open, such as the data of a training run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "engine/base/files/descriptor.h"

namespace gemel {

/// Identity of a file and its content, as far as it is known without reading: device, inode, size, time of change.
struct FileStamp {
  std::uint64_t device = 0, inode = 0;
  std::int64_t bytes = 0, modified_ns = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
/// @throws DataError `read: cannot open PATH: ...`
FileStamp stamp_of(const std::filesystem::path& path);
/// @throws DataError `read: PATH has changed since it was opened: ...` if the stamps differ
void require_unchanged(const std::filesystem::path& path, const FileStamp& opened, const FileStamp& now);

/// A regular file that any thread can read by ranges. Not memory-mapped: a mapped file that shrinks kills the process.
class SteadyFile {
 public:
  /// @throws DataError `read: cannot open PATH: ...` if the file is missing, unreadable or not a regular file
  explicit SteadyFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// Size when the file was opened.
  std::int64_t bytes() const { return opened_.bytes; }
  /// Reads `out.size()` bytes at `offset`. @throws DataError naming the file if it has become shorter or cannot be read
  void read(std::int64_t offset, std::span<std::byte> out) const;
  /// Checks that the open file is as it was opened; ignores a new file at its path. @throws DataError as require_unchanged
  void check_content_unchanged() const;
  /// Checks that the open file is as it was opened, and that no other file has replaced it. @throws DataError as require_unchanged
  void check_unchanged() const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  FileStamp opened_;
};

}  // namespace gemel
