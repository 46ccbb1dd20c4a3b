// RAII owner of a POSIX file descriptor, and functions that open files and read from them.
#pragma once
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace gemel {

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int get() const { return value_; }
  /// Closes the file; some file systems report a failed write only here. @return 0 or the error number
  int close() { return ::close(std::exchange(value_, -1)) == 0 ? 0 : errno; }

 private:
  int value_;
};

/// @throws DataError always: `OP: cannot WHAT PATH: ` and the system's message
[[noreturn]] void fail_on(const char* op, const char* what, const std::filesystem::path& path, int error_number);

/// Opens a regular file. Does not block on a pipe.
/// @param flags  of open(2)
/// @throws DataError `OP: cannot open PATH: ...` if the file cannot be opened or is not a regular file
Descriptor open_regular(const char* op, const std::filesystem::path& path, int flags);

/// Reads what stands at an offset of an open file.
/// @return how many bytes came, fewer than wanted where the file ends; -1 with errno if the system refuses
std::int64_t read_at(int descriptor, std::uint64_t offset, std::span<std::byte> to);

}  // namespace gemel
