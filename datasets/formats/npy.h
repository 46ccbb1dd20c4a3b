// Reads and writes .npy files, which hold one array each.
// Source: numpy/lib/format.py, format versions 1.0 to 3.0.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files/file.h"
#include "engine/base/files/steady_file.h"
#include "engine/base/spec.h"

namespace gemel::datasets {

enum class NpyType : std::uint8_t { float32, float64, float16, int32, int64, uint8, boolean };

/// "float32", "uint8", ...
std::string_view to_string(NpyType type);
/// Returns the bytes of one element.
std::size_t size_of(NpyType type);

struct NpyHeader {
  NpyType type = NpyType::float32;
  Shape shape;
  /// Offset in bytes from the beginning of the file to the first element.
  std::size_t data_offset = 0;
};

/// Reads the header and checks that the file is exactly as long as its header says. Allocates no memory for the elements.
/// @throws DataError for anything but a row-major little-endian array of one of the types above
NpyHeader read_npy_header(const SteadyFile& file);

/// An .npy file that is read in parts, so that it may be larger than memory.
class NpyFile {
 public:
  /// @throws DataError if the file cannot be read or is not valid
  explicit NpyFile(const std::filesystem::path& path) : file_(path), header_(read_npy_header(file_)) {}

  const std::filesystem::path& path() const { return file_.path(); }
  NpyType type() const { return header_.type; }
  const Shape& shape() const { return header_.shape; }
  /// Reads the bytes from `offset` of the row-major elements into `out`.
  /// @throws DataError as SteadyFile::read
  void read(std::int64_t offset, std::span<std::byte> out) const { file_.read(static_cast<std::int64_t>(header_.data_offset) + offset, out); }
  /// Reads all elements.
  std::vector<std::byte> data() const;
  /// @throws DataError as SteadyFile::check_unchanged
  void check_unchanged() const { file_.check_unchanged(); }

 private:
  SteadyFile file_;
  NpyHeader header_;
};

/// Writes a file of format version 1.0. `fill` writes the elements in parts. The file appears complete or not at all.
/// @param spec  any element type but bfloat16, which the format lacks
/// @throws DataError if the file cannot be written
/// @throws UsageError if `fill` does not write spec.bytes() bytes, or the element type is bfloat16
void write_npy(const std::filesystem::path& path, const Spec& spec, const std::function<void(FileWriter&)>& fill);
void write_npy(const std::filesystem::path& path, const Spec& spec, std::span<const std::byte> data);

}  // namespace gemel::datasets
