// Reading and atomic writing of whole files. No file is memory-mapped: a mapped file that shrinks kills the process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gemel {

/// The system's message for an error number: "No space left on device".
std::string system_message(int error_number);

/// True if the path exists; true if it is a folder. Both follow symbolic links.
/// @throws DataError `read: cannot examine PATH: ...` if the system cannot tell: a name too long, a folder without permission
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// Reads a regular file. A file that shrinks meanwhile is read to its new end.
/// @throws DataError `read: cannot open PATH: ...` if the file is missing, unreadable or not a regular file
std::vector<std::byte> read_whole(const std::filesystem::path& path);
inline std::string_view as_text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Writes to an open file and checks every write.
class FileWriter {
 public:
  /// @param shown  path that errors name: the final file, where a temporary one is open
  FileWriter(int descriptor, std::filesystem::path shown) : descriptor_(descriptor), shown_(std::move(shown)) {}

  /// Appends the bytes. Each call makes at least one system call.
  /// @throws DataError `write: cannot write PATH: No space left on device`
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Bytes written so far.
  std::int64_t written() const { return written_; }

 private:
  int descriptor_;
  std::filesystem::path shown_;
  std::int64_t written_ = 0;
};

/// Writes a file so that the path holds either its previous content or all of the new one: writes a temporary file in the same folder, flushes
/// it to the disk and renames it. Follows symbolic links and refuses what is not a regular file. If `fill` throws, removes the temporary file
/// and rethrows. Removes temporary files that killed writers left in the folder. Writes /dev/stdout, /dev/stderr and /dev/fd/N directly.
/// @throws DataError naming the path and the reason
void write_file_atomically(const std::filesystem::path& path, const std::function<void(FileWriter&)>& fill);

/// Checks, before hours of work, that a file can be written. Leaves nothing behind.
/// @throws DataError as write_file_atomically, if the folder is missing or not writable or the path cannot be replaced
void check_can_write(const std::filesystem::path& path);

}  // namespace gemel
