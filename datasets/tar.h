// A stream of members out of a compressed tar archive. Nothing is ever extracted to disk.
// Source: POSIX.1-2017, pax, ustar interchange format; GNU tar manual, long names.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "datasets/gzip.h"

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

  /// @param limit  bytes beyond which the inflated archive is refused
  TarReader(const std::filesystem::path& path, std::int64_t limit) : source_(path, limit) {}

  /// The next member, or nothing at the end of the archive, which is then verified to the end of the file.
  /// @throws DataError for a wrong checksum, a malformed or truncated archive
  std::optional<TarMember> next();
  /// Reads the data of the member that `next` returned last; all of them at once.
  /// @throws DataError where the archive ends before
  void read(std::span<std::byte> out);

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void read_exactly(std::span<std::byte> out, const std::string& what);
  void skip();
  /// The data of the member at hand, where they are text about the next.
  std::string read_text();
  /// False at the end of the archive.
  bool read_header(std::span<std::byte, kBlock> block);
  void begin_member(const std::string& name, std::int64_t bytes);

  GzipReader source_;
  std::string member_ = "the archive";
  /// Bytes of the member at hand that have not been read, and of the padding after it.
  std::int64_t unread_ = 0, padding_ = 0;
};

}  // namespace gemel::datasets
