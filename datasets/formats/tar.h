// A stream of members out of a tar archive, plain or compressed by gzip. Nothing is ever extracted to disk.
// Source: POSIX.1-2017, pax, ustar interchange format; GNU tar manual, long names.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "datasets/formats/gzip.h"
#include "engine/base/files/steady_file.h"

namespace gemel::datasets {

struct TarMember {
  /// The whole path, as the archive gives it.
  std::string name;
  std::int64_t bytes = 0;
  /// False for folders, links and devices.
  bool is_file = false;
};

class TarReader {
 public:
  static constexpr std::size_t kBlock = 512;

  /// Compressed or not is told by the file's first bytes. @param limit  bytes beyond which what inflates is refused
  /// @throws DataError where the file is missing or empty
  TarReader(const std::filesystem::path& path, std::int64_t limit);

  /// The next member, or nothing at the end of the archive, which is then verified to the end of the file.
  /// @throws DataError for a wrong checksum, a malformed or truncated archive
  std::optional<TarMember> next();
  /// Reads the data of the member that `next` returned last; all of them at once.
  /// @throws DataError where the archive ends before
  void read(std::span<std::byte> out);

 private:
  /// A file as it is, front to back.
  struct Plain {
    SteadyFile file;
    std::int64_t given = 0;  // bytes
    std::size_t read(std::span<std::byte> out);
  };
  static std::variant<GzipReader, Plain> opened(const std::filesystem::path& path, std::int64_t limit);
  [[noreturn]] void fail(const std::string& what) const;
  std::size_t read_some(std::span<std::byte> out);
  void read_exactly(std::span<std::byte> out, const std::string& what);
  void skip();
  /// The data of the member at hand, where they are text about the next.
  std::string read_text();
  /// False at the end of the archive.
  bool read_header(std::span<std::byte, kBlock> block);
  void begin_member(const std::string& name, std::int64_t bytes);

  std::filesystem::path path_;
  std::variant<GzipReader, Plain> source_;
  static constexpr const char* kNoMember = "the archive";
  std::string member_ = kNoMember;
  /// Bytes of the member at hand that have not been read, and of the padding after it.
  std::int64_t unread_ = 0, padding_ = 0;
};

}  // namespace gemel::datasets
