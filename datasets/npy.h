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

#include "engine/base/file.h"
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

/// Parses and checks the header, and that the file holds exactly the data it promises; allocates nothing for them.
/// @param file  the whole file
/// @param name  the path that errors name
/// @throws DataError for anything but a row-major little-endian array of a type above
NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& name);

/// A file mapped for reading, so that it may be larger than memory.
class NpyFile {
 public:
  /// @throws DataError naming the file and what is wrong with it
  explicit NpyFile(const std::filesystem::path& path)
      : file_(path), header_(parse_npy_header(file_.bytes(), path.string())) {}

  const std::filesystem::path& path() const { return file_.path(); }
  NpyType type() const { return header_.type; }
  const Shape& shape() const { return header_.shape; }
  /// Row-major elements; not always aligned to the element.
  std::span<const std::byte> data() const { return file_.bytes().subspan(header_.data_offset); }

 private:
  MappedFile file_;
  NpyHeader header_;
};

/// Writes version 1.0 with the data that `fill` writes, piece by piece; the file appears whole or not at all.
/// @param spec  any type but bfloat16, which the format lacks
/// @throws DataError where the file cannot be written
/// @throws UsageError where `fill` writes other than spec.bytes() bytes, or for bfloat16
void write_npy(const std::filesystem::path& path, const Spec& spec, const std::function<void(FileWriter&)>& fill);
void write_npy(const std::filesystem::path& path, const Spec& spec, std::span<const std::byte> data);

}  // namespace gemel::datasets
