// TensorBoardWriter: event files of TensorBoard with scalars.
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

/// CRC-32C (Castagnoli) as records store it: rotated right by 15 bits, plus 0xa282ead8.
std::uint32_t masked_crc32c(std::span<const std::byte> bytes);

/// Writes one event file. TensorBoard shows each folder with event files as a run.
class TensorBoardWriter {
 public:
  /// Creates the folder if it is missing, and in it a new file `events.out.tfevents.*` whose name sorts last.
  /// @throws DataError naming the path and the reason
  explicit TensorBoardWriter(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return file_->path(); }
  /// Marks the start of a run at a step. TensorBoard then hides earlier points, of this and earlier files, with this or a later step.
  /// @throws DataError as `scalar`
  void begin_at(std::int64_t step);
  /// Adds one point to the curve `tag`, with the current time. The point is in the file when this returns.
  /// @throws DataError naming the file and the reason; the file then ends with the previous point
  void scalar(std::string_view tag, float value, std::int64_t step);

 private:
  void write_record(std::string_view event);

  std::optional<RecordFile> file_;
};

}  // namespace gemel
