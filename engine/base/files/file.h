// Files: read whole, and written so that never half a file is left behind. None is mapped: one that shrinks would end the process.
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

/// The system's words for an error number: "No space left on device".
std::string system_message(int error_number);

/// Whether anything is at the path, and whether that is a folder; of a link, what it leads to.
/// @throws DataError `read: cannot examine PATH: ...` where the system does not say: a name too long, a closed folder
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// A regular file's content, up to its end at the time: less than its size at first where it shrinks meanwhile.
/// @throws DataError `read: cannot open PATH: ...` where it is missing, unreadable or no regular file
std::vector<std::byte> read_whole(const std::filesystem::path& path);
/// Bytes as text.
inline std::string_view as_text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// An open file that checks every write.
class FileWriter {
 public:
  /// @param shown  the path that errors name: the file wanted, which may not be the temporary one that is open
  FileWriter(int descriptor, std::filesystem::path shown) : descriptor_(descriptor), shown_(std::move(shown)) {}

  /// Appends the bytes; each call is at least one system call, so give pieces of some size.
  /// @throws DataError `write: cannot write PATH: No space left on device`
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Bytes written up to now.
  std::int64_t written() const { return written_; }

 private:
  int descriptor_;
  std::filesystem::path shown_;
  std::int64_t written_ = 0;
};

/// Writes a file so that the path holds either what it held before or all of the new content: into a temporary file in
/// the same folder, flushed to the disk, then renamed. A symbolic link is followed; what is no regular file (a pipe, a
/// device) is refused, and not waited for. Where `fill` throws, the temporary file is removed and the exception goes on. What a
/// killed writer left in the folder is removed by the next one.
/// @throws DataError naming the path and the reason
void write_file_atomically(const std::filesystem::path& path, const std::function<void(FileWriter&)>& fill);

/// Finds early, before hours of work, that a file could not be written at its end. Nothing is left behind.
/// @throws DataError as write_file_atomically does where the folder is missing or closed
void check_can_write(const std::filesystem::path& path);

}  // namespace gemel
