// CIFAR-10 in its official binary layout: each record is a label, then the red, green and blue planes of a 32 x 32 picture.
// Source: A. Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html, binary version.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "datasets/pictures/picture_dataset.h"
#include "engine/base/files/steady_file.h"

namespace gemel::datasets {

/// A file of records: on disk and read by record, or decompressed from the archive into memory.
using Cifar10File = std::variant<SteadyFile, std::vector<std::byte>>;

class Cifar10Dataset final : public Pictures {
 public:
  static constexpr std::int64_t kRecordBytes = 3073, kRecordsPerFile = 10000;
  static constexpr std::int64_t kFileBytes = kRecordBytes * kRecordsPerFile;
  static constexpr std::int64_t kClasses = 10;

  /// @param files   each of kFileBytes
  /// @param labels  [record] of all files, each below `classes`
  Cifar10Dataset(std::vector<Cifar10File> files, std::vector<std::uint8_t> labels, std::int64_t classes, Normalize normalize);

  std::string_view name() const override { return "cifar10"; }
  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()) * kRecordsPerFile; }
  std::int64_t classes() const override { return classes_; }
  const Shape& shape() const override { return shape_; }
  std::int64_t label(std::int64_t i) const override { return labels_[static_cast<std::size_t>(i)]; }
  void copy(std::int64_t i, const Placement& placement, std::span<float> out) const override;
  void check_files() const override;

 private:
  Shape shape_{3, 32, 32};
  std::int64_t classes_;
  std::vector<Cifar10File> files_;
  std::vector<std::uint8_t> labels_;  // [sample]
  /// [channel][byte] pixel value after normalisation.
  std::array<std::array<float, 256>, 3> values_;
};

/// Opens data_batch_1..5.bin (train) and test_batch.bin (validation).
/// @param data  folder that holds the files or the folder cifar-10-batches-bin, or the official .tar.gz
/// @param classes  labels must be below it; 0: 10
/// @throws DataError naming the file, its size and the size expected; or the file, the record and a label out of range
Splits open_cifar10(const std::filesystem::path& data, std::int64_t classes, Normalize normalize);

}  // namespace gemel::datasets
