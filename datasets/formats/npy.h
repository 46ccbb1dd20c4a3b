// .npy files: one array each.
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
/// Bytes of one element.
std::size_t size_of(NpyType type);

struct NpyHeader {
  NpyType type = NpyType::float32;
  Shape shape;
  /// Where the data begin in the file.
  std::size_t data_offset = 0;
};

/// Reads and checks the header, and that the file holds exactly the data it promises; allocates nothing for them.
/// @throws DataError for anything but a row-major little-endian array of a type above
NpyHeader read_npy_header(const SteadyFile& file);

/// A file that is read piece by piece, so that it may be larger than memory.
class NpyFile {
 public:
  /// @throws DataError naming the file and what is wrong with it
  explicit NpyFile(const std::filesystem::path& path) : file_(path), header_(read_npy_header(file_)) {}

  const std::filesystem::path& path() const { return file_.path(); }
  NpyType type() const { return header_.type; }
  const Shape& shape() const { return header_.shape; }
  /// Fills `out` with the row-major elements from a byte of the data on. @throws DataError as SteadyFile::read
  void read(std::int64_t offset, std::span<std::byte> out) const { file_.read(static_cast<std::int64_t>(header_.data_offset) + offset, out); }
  /// All of it.
  std::vector<std::byte> data() const;
  /// @throws DataError as SteadyFile::check_unchanged
  void check_unchanged() const { file_.check_unchanged(); }

 private:
  SteadyFile file_;
  NpyHeader header_;
};

/// Writes version 1.0 with the data that `fill` writes, piece by piece; the file appears whole or not at all.
/// @param spec  any type but bfloat16, which the format lacks
/// @throws DataError where the file cannot be written
/// @throws UsageError where `fill` writes other than spec.bytes() bytes, or for bfloat16
void write_npy(const std::filesystem::path& path, const Spec& spec, const std::function<void(FileWriter&)>& fill);
void write_npy(const std::filesystem::path& path, const Spec& spec, std::span<const std::byte> data);

}  // namespace gemel::datasets
