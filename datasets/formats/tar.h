// TarReader: reads the members of a tar archive, plain or gzip-compressed, as a stream. Nothing is extracted to disk.
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
  /// The member's full path as stored in the archive.
  std::string name;
  std::int64_t bytes = 0;
  /// False for directories, links and devices.
  bool is_file = false;
};

class TarReader {
 public:
  static constexpr std::size_t kBlock = 512;

  /// Detects compression by the file's first bytes.
  /// @param limit  most bytes that a compressed archive may decompress to
  /// @throws DataError if the file is missing or empty
  TarReader(const std::filesystem::path& path, std::int64_t limit);

  /// Returns the next member, or nothing at the end of the archive. The rest of the file is then read, so that its checksums are verified.
  /// @throws DataError if a checksum is wrong, or the archive is malformed or truncated
  std::optional<TarMember> next();
  /// Reads all data of the member that `next` returned last.
  /// @throws DataError if the archive ends too early
  void read(std::span<std::byte> out);

 private:
  /// An uncompressed file, read from its beginning to its end.
  struct Plain {
    SteadyFile file;
    std::int64_t given = 0;  // bytes read so far
    std::size_t read(std::span<std::byte> out);
  };
  static std::variant<GzipReader, Plain> opened(const std::filesystem::path& path, std::int64_t limit);
  [[noreturn]] void fail(const std::string& what) const;
  std::size_t read_some(std::span<std::byte> out);
  void read_exactly(std::span<std::byte> out, const std::string& what);
  void skip();
  /// Reads the data of a member that describes the next one, such as its long name.
  std::string read_text();
  /// Returns false at the end of the archive.
  bool read_header(std::span<std::byte, kBlock> block);
  void begin_member(const std::string& name, std::int64_t bytes);

  std::filesystem::path path_;
  std::variant<GzipReader, Plain> source_;
  static constexpr const char* kNoMember = "the archive";
  std::string member_ = kNoMember;
  /// Unread bytes of the current member, and of the padding after it.
  std::int64_t unread_ = 0, padding_ = 0;
};

}  // namespace gemel::datasets
