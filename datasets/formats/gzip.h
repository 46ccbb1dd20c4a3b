// GzipReader: reads a gzip file as a stream of decompressed bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace gemel::datasets {

/// Decompresses a gzip file from its beginning to its end and verifies its checksums.
class GzipReader {
 public:
  /// @param limit  most bytes of output; a larger stream is refused, for a small file can decompress to any size
  /// @throws DataError if the file is missing or is not a gzip file
  GzipReader(const std::filesystem::path& path, std::int64_t limit);
  ~GzipReader();
  GzipReader(GzipReader&&) noexcept;

  const std::filesystem::path& path() const;
  /// Reads the next bytes into `out` and returns their number, which is less than out.size() only at the end of the stream.
  /// @throws DataError if the file is truncated or corrupt, or decompresses to more than the limit
  std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gemel::datasets
