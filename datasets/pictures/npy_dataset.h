// NpyDataset: pictures in .npy files of one folder. Training: images.npy float32 [N, C, H, W] and labels.npy int64 [N]. Validation, optional: val_images.npy
// and val_labels.npy.
#pragma once
#include <cstdint>
#include <vector>

#include "datasets/formats/npy.h"
#include "datasets/pictures/picture_dataset.h"

namespace gemel::datasets {

/// One split. Pictures are not changed, and are read from the file on each access.
class NpyDataset final : public Pictures {
 public:
  /// @param classes  labels must be below it; 0: any label below a million
  /// @throws DataError naming the file, the record and the value
  NpyDataset(const std::filesystem::path& images, const std::filesystem::path& labels, std::int64_t classes);

  std::string_view name() const override { return "npy"; }
  std::int64_t size() const override { return images_.shape()[0]; }
  std::int64_t classes() const override { return classes_; }
  const Shape& shape() const override { return shape_; }
  std::int64_t label(std::int64_t i) const override { return labels_[static_cast<std::size_t>(i)]; }
  void copy(std::int64_t i, const Placement& placement, std::span<float> out) const override;
  void check_files() const override { images_.check_unchanged(); }
  /// Sets the number of classes, on which the splits of a data set agree.
  void set_classes(std::int64_t classes) { classes_ = classes; }

 private:
  NpyFile images_;
  std::vector<std::int64_t> labels_;  // [sample]
  Shape shape_;
  std::int64_t classes_;
};

/// Opens both splits of a folder.
/// @param classes  labels must be below it; 0: the largest label of both splits plus one
/// @throws DataError naming the file, the record and the value
Splits open_npy(const std::filesystem::path& folder, std::int64_t classes, Normalize normalize);

}  // namespace gemel::datasets
