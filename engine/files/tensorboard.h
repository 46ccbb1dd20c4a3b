// TensorBoard event files with scalars.
// Source: tensorflow/core/lib/io/record_writer.h (records), tensorflow/core/util/event.proto, summary.proto (messages).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "engine/base/files/record_file.h"

namespace gemel {

/// CRC-32C (Castagnoli) of the bytes, masked as records store it: rotated right by 15 bits, plus 0xa282ead8.
std::uint32_t masked_crc32c(std::span<const std::byte> bytes);

/// Writes one event file; TensorBoard shows the folders that hold one as runs.
class TensorBoardWriter {
 public:
  /// Creates the folder where it is missing, and in it a new `events.out.tfevents.*`, by its name the last.
  /// @throws DataError naming the path and the system's reason
  explicit TensorBoardWriter(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return file_->path(); }
  /// Says that a run begins whose first step is this: TensorBoard then shows no point of that step or a later one which stands before it in this file
  /// or an earlier one. @throws DataError as `scalar` does
  void begin_at(std::int64_t step);
  /// Adds one point to the curve `tag`, with the time of the call. It is in the file when this returns.
  /// @throws DataError naming the file and the system's reason; the file then holds the points before, whole
  void scalar(std::string_view tag, float value, std::int64_t step);

 private:
  void write_record(std::string_view event);

  std::optional<RecordFile> file_;
};

}  // namespace gemel
