// safetensors: named tensors in one file. u64 little-endian N, N bytes of JSON, then the data.
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
  Spec spec;  // in the files' layout
};

/// A tensor in host memory, row-major. The bytes belong to somebody else and need not be aligned to the element.
struct NamedTensor {
  std::string name;
  Spec spec;
  std::span<const std::byte> data;
};

/// Text that goes with a file: its `__metadata__`.
using FileMetadata = std::map<std::string, std::string>;

/// A tensor of an element type that the format knows and the engine has not.
struct ForeignTensor {
  std::string name;
  Shape shape;
  std::string_view type;  // in the format's words: "U8"
};

/// What becomes of foreign tensors: files of Gemel's own have none, of others' weights a model may have no use for them.
enum class ForeignTensors { refused, listed };

/// What a safetensors file says of its tensors; their data are not read. It is checked against the file's size: what
/// `tensors` and `foreign` name is there, whole, and nothing else is.
class SafetensorsHeader {
 public:
  /// Accepts F32, F16, BF16, I32, I64 and BOOL; F64, which becomes float32; and, where foreign tensors are listed, every other type of the format.
  /// @throws DataError naming the file, the tensor and what is wrong with it, or what the file is that is none of these
  explicit SafetensorsHeader(const std::filesystem::path& path, ForeignTensors foreign = ForeignTensors::refused);

  const std::filesystem::path& path() const { return file_.path(); }
  /// In the header's order, as the other lists are.
  std::span<const NamedSpec> tensors() const { return tensors_; }
  std::span<const ForeignTensor> foreign() const { return foreign_; }
  const FileMetadata& metadata() const { return metadata_; }

 private:
  friend class SafetensorsFile;
  struct Place {
    std::size_t begin;  // in the data
    bool is_double;     // and is read as float32
  };
  SteadyFile file_;
  std::int64_t data_offset_ = 0;  // in the file
  std::vector<NamedSpec> tensors_;
  std::vector<Place> places_;  // [tensor]
  std::vector<ForeignTensor> foreign_;
  FileMetadata metadata_;
};

/// A safetensors file and its data. They are read once, so nothing that becomes of the file afterwards reaches them.
class SafetensorsFile {
 public:
  /// @throws DataError as SafetensorsHeader, and where the file changes while it is read
  explicit SafetensorsFile(const std::filesystem::path& path) : SafetensorsFile(SafetensorsHeader(path)) {}
  /// F64 is rounded to float32. A file that another was renamed over is read to its end.
  /// @throws DataError naming the file where it has changed since its header was read
  explicit SafetensorsFile(SafetensorsHeader header);

  const SafetensorsHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return header_.path(); }
  /// In the header's order. The data live as long as this object.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  /// The tensor of that name, or null.
  const NamedTensor* find(std::string_view name) const;
  const FileMetadata& metadata() const { return header_.metadata(); }

 private:
  SafetensorsHeader header_;
  std::unique_ptr<std::byte[]> data_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

/// Of names, specs, contents and metadata, in whatever order a file has them: text that tells damage and other contents.
std::string checksum_of(std::span<const NamedTensor> tensors, const FileMetadata& metadata = {});

/// Writes the tensors, header entries in the order given; the file appears whole or not at all (write_file_atomically).
/// The default metadata is what safetensors.torch expects.
/// @throws DataError where the file cannot be written
/// @throws UsageError for names given twice or not in UTF-8, or bytes that do not match a spec
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors, const FileMetadata& metadata = {{"format", "pt"}});

}  // namespace gemel
