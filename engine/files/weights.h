// Weights as others leave them: one safetensors file, or shards of one and their index, model.safetensors.index.json.
// Source: https://huggingface.co/docs/transformers, big models: {"weight_map": {tensor: file in the index's folder}}.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/files/safetensors.h"

namespace gemel {

/// What the files say of their tensors; their data are not read.
class WeightsHeader {
 public:
  /// @param path  a safetensors file, an index of shards, or a folder that holds model.safetensors or else model.safetensors.index.json
  /// @throws DataError as SafetensorsHeader does, where a folder has neither, and for an index that is none or does not fit its shards
  explicit WeightsHeader(const std::filesystem::path& path);

  /// Of all shards, one behind the other.
  std::span<const NamedSpec> tensors() const { return tensors_; }
  std::span<const ForeignTensor> foreign() const { return foreign_; }
  /// Whether some file has that field.
  bool has_metadata(const std::string& field) const;

 private:
  friend class WeightsFile;
  void add(SafetensorsHeader file);

  std::vector<SafetensorsHeader> files_;
  std::vector<NamedSpec> tensors_;
  std::vector<ForeignTensor> foreign_;
};

/// And their data.
class WeightsFile {
 public:
  /// @throws DataError as WeightsHeader, and where a file changes while it is read
  explicit WeightsFile(const std::filesystem::path& path) : WeightsFile(WeightsHeader(path)) {}
  explicit WeightsFile(WeightsHeader header);

  std::span<const NamedTensor> tensors() const { return tensors_; }
  std::span<const ForeignTensor> foreign() const { return foreign_; }
  bool has_metadata(const std::string& field) const;

 private:
  std::vector<SafetensorsFile> files_;
  std::vector<NamedTensor> tensors_;
  std::vector<ForeignTensor> foreign_;
};

}  // namespace gemel
