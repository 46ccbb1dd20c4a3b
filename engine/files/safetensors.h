// safetensors: named tensors in one file. u64 little-endian N, N bytes of JSON, then the data.
// Source: https://huggingface.co/docs/safetensors, format section.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/spec.h"

namespace gemel {

/// A tensor in host memory, row-major. The bytes belong to somebody else and need not be aligned to the element.
struct NamedTensor {
  std::string name;
  Spec spec;
  std::span<const std::byte> data;
};

/// Text that goes with a file: its `__metadata__`.
using FileMetadata = std::map<std::string, std::string>;

/// A safetensors file, checked as a whole when it is opened: what `tensors` names is there, whole, and nothing else is.
class SafetensorsFile {
 public:
  /// Reads F32, F16, BF16, I32, I64 and BOOL.
  /// @throws DataError naming the file, the tensor and what is wrong with it
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  /// In the header's order. The data live as long as this object.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  /// The tensor of that name, or null.
  const NamedTensor* find(std::string_view name) const;
  const FileMetadata& metadata() const { return metadata_; }

 private:
  MappedFile file_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  FileMetadata metadata_;
};

/// Of names, specs, contents and metadata, in whatever order a file has them: text that tells damage and other contents.
std::string checksum_of(std::span<const NamedTensor> tensors, const FileMetadata& metadata = {});

/// Writes the tensors, header entries in the order given; the file appears whole or not at all (write_file_atomically).
/// The default metadata is what safetensors.torch expects.
/// @throws DataError where the file cannot be written
/// @throws UsageError for names given twice or not in UTF-8, or bytes that do not match a spec
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const FileMetadata& metadata = {{"format", "pt"}});

}  // namespace gemel
