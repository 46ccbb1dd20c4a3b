// Descriptors of open files.
#pragma once
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace gemel {

/// A descriptor that closes itself.
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
  /// Some file systems report a failed write only here. Returns 0 or the error number.
  int close() { return ::close(std::exchange(value_, -1)) == 0 ? 0 : errno; }

 private:
  int value_;
};

/// @throws DataError `OP: cannot WHAT PATH: ` and the system's words
[[noreturn]] void fail_on(const char* op, const char* what, const std::filesystem::path& path, int error_number);

/// Opens a regular file and nothing else; a pipe is not waited for. @param flags  open's  @throws DataError `OP: cannot open PATH: ...`
Descriptor open_regular(const char* op, const std::filesystem::path& path, int flags);

}  // namespace gemel
