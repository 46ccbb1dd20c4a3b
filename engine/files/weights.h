// Weights in the layouts of Hugging Face: one safetensors file, or several with an index, model.safetensors.index.json.
// Source: https://huggingface.co/docs/transformers, big models: {"weight_map": {tensor: file in the folder of the index}}.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/files/safetensors.h"

namespace gemel {

/// Headers of all files of the weights; the data are not read.
class WeightsHeader {
 public:
  /// @param path  a safetensors file, an index, or a folder with model.safetensors or model.safetensors.index.json
  /// @throws DataError as SafetensorsHeader; also if a folder has neither file, or an index is invalid or does not match its files
  explicit WeightsHeader(const std::filesystem::path& path);

  /// Tensors of all files, one file after the other.
  std::span<const NamedSpec> tensors() const { return tensors_; }
  std::span<const ForeignTensor> foreign() const { return foreign_; }
  /// True if the metadata of any file has that field.
  bool has_metadata(const std::string& field) const;

 private:
  friend class WeightsFile;
  void add(SafetensorsHeader file);

  std::vector<SafetensorsHeader> files_;
  std::vector<NamedSpec> tensors_;
  std::vector<ForeignTensor> foreign_;
};

/// All files of the weights and their data.
class WeightsFile {
 public:
  /// @throws DataError as WeightsHeader, and if a file changes while it is read
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
