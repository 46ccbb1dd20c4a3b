// A stream of bytes out of a gzip file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace gemel::datasets {

/// Inflates a gzip file front to back, checking its checksums.
class GzipReader {
 public:
  /// @param limit  bytes of output beyond which the file is refused: a small file can inflate without end
  /// @throws DataError where the file is missing or no gzip file
  GzipReader(const std::filesystem::path& path, std::int64_t limit);
  ~GzipReader();
  GzipReader(GzipReader&&) noexcept;

  const std::filesystem::path& path() const;
  /// Fills `out` and returns its size; returns less only at the end of the stream.
  /// @throws DataError where the file is truncated or corrupt, or inflates beyond the limit
  std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gemel::datasets
