// The safetensors format: named tensors in one file. A file is N (u64, little-endian), N bytes of JSON, then the data.
// Source: https://huggingface.co/docs/safetensors, format section.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files/steady_file.h"
#include "engine/base/spec.h"

namespace gemel {

struct NamedSpec {
  std::string name;
  Spec spec;  // in the layout of the file
};

/// A row-major tensor in host memory. Does not own the bytes, which need not be aligned to the element.
struct NamedTensor {
  std::string name;
  Spec spec;
  std::span<const std::byte> data;
};

/// The `__metadata__` of a file: text by name.
using FileMetadata = std::map<std::string, std::string>;

/// A tensor whose element type the format has and the engine has not.
struct ForeignTensor {
  std::string name;
  Shape shape;
  std::string_view type;  // name in the format, such as "U8"
};

/// Treatment of foreign tensors. Gemel's own files have none; in weights of others a model may not need them.
enum class ForeignTensors { refused, listed };

/// Header of a safetensors file; the data are not read. The header is checked against the size of the file: the tensors cover the data exactly.
class SafetensorsHeader {
 public:
  /// Reads a header. Accepts F32, F16, BF16, I32, I64 and BOOL; F64, which is read as float32; and all other types of the format if foreign tensors are
  /// listed.
  /// @throws DataError naming the file, the tensor and the fault, or the format of a file that is not safetensors
  explicit SafetensorsHeader(const std::filesystem::path& path, ForeignTensors foreign = ForeignTensors::refused);

  const std::filesystem::path& path() const { return file_.path(); }
  /// Tensors in the order of the header, as in the other lists.
  std::span<const NamedSpec> tensors() const { return tensors_; }
  std::span<const ForeignTensor> foreign() const { return foreign_; }
  const FileMetadata& metadata() const { return metadata_; }

 private:
  friend class SafetensorsFile;
  struct Place {
    std::size_t begin;  // offset in the data
    bool is_double;     // F64, read as float32
  };
  SteadyFile file_;
  std::int64_t data_offset_ = 0;  // offset of the data in the file
  std::vector<NamedSpec> tensors_;
  std::vector<Place> places_;  // [tensor]
  std::vector<ForeignTensor> foreign_;
  FileMetadata metadata_;
};

/// A safetensors file and its data. The data are read once; later changes of the file have no effect.
class SafetensorsFile {
 public:
  /// @throws DataError as SafetensorsHeader, and if the file changes while it is read
  explicit SafetensorsFile(const std::filesystem::path& path) : SafetensorsFile(SafetensorsHeader(path)) {}
  /// Reads the data; rounds F64 to float32. A file that was replaced by a rename is read to its end.
  /// @throws DataError naming the file if it was changed since its header was read
  explicit SafetensorsFile(SafetensorsHeader header);

  const SafetensorsHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return header_.path(); }
  /// Tensors in the order of the header. The data live as long as this object.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  /// Tensor of that name, or null.
  const NamedTensor* find(std::string_view name) const;
  const FileMetadata& metadata() const { return header_.metadata(); }

 private:
  SafetensorsHeader header_;
  std::unique_ptr<std::byte[]> data_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

/// Checksum of names, specs, contents and metadata, independent of their order in a file. Detects damage and other contents.
std::string checksum_of(std::span<const NamedTensor> tensors, const FileMetadata& metadata = {});

/// Writes a safetensors file atomically (write_file_atomically), with header entries in the given order.
/// @param metadata  the default is what safetensors.torch expects
/// @throws DataError if the file cannot be written
/// @throws UsageError for a name that occurs twice or is not UTF-8, or bytes that do not match a spec
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors, const FileMetadata& metadata = {{"format", "pt"}});

}  // namespace gemel
