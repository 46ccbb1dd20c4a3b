// Files that are read while work goes on, and must stay as they were opened: data under a training run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "engine/base/files/descriptor.h"

namespace gemel {

/// What tells that a path still leads to the same file with the same content, short of reading it.
struct FileStamp {
  std::uint64_t device = 0, inode = 0;
  std::int64_t bytes = 0, modified_ns = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
/// @throws DataError `read: cannot open PATH: ...`
FileStamp stamp_of(const std::filesystem::path& path);
/// @throws DataError `read: PATH has changed since it was opened: ...` where the stamps differ
void require_unchanged(const std::filesystem::path& path, const FileStamp& opened, const FileStamp& now);

/// A regular file that is read piece by piece, from any thread. It is not mapped: a mapped file that shrinks ends the process.
class SteadyFile {
 public:
  /// @throws DataError `read: cannot open PATH: ...` where it is missing, unreadable or no regular file
  explicit SteadyFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// As it was opened.
  std::int64_t bytes() const { return opened_.bytes; }
  /// Fills `out` with what lies at an offset. @throws DataError naming the file where it has become shorter, or cannot be read
  void read(std::int64_t offset, std::span<std::byte> out) const;
  /// Whether what was read is what was opened, whatever its path leads to now. @throws DataError as require_unchanged
  void check_content_unchanged() const;
  /// The same, and whether no other file is in its place.
  /// @throws DataError as require_unchanged
  void check_unchanged() const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  FileStamp opened_;
};

}  // namespace gemel
