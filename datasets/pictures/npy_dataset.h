// npy: a folder with images.npy float32 [N, C, H, W] and labels.npy int64 [N]; val_images.npy and val_labels.npy where
// present.
#pragma once
#include <cstdint>
#include <vector>

#include "datasets/formats/npy.h"
#include "datasets/pictures/picture_dataset.h"

namespace gemel::datasets {

/// One split. Pictures are used as they are, and read from the file each time.
class NpyDataset final : public Pictures {
 public:
  /// @param classes  how many the labels must be below; 0: any label below a million
  /// @throws DataError naming file, record and value
  NpyDataset(const std::filesystem::path& images, const std::filesystem::path& labels, std::int64_t classes);

  std::string_view name() const override { return "npy"; }
  std::int64_t size() const override { return images_.shape()[0]; }
  std::int64_t classes() const override { return classes_; }
  const Shape& shape() const override { return shape_; }
  std::int64_t label(std::int64_t i) const override { return labels_[static_cast<std::size_t>(i)]; }
  void copy(std::int64_t i, const Placement& placement, std::span<float> out) const override;
  void check_files() const override { images_.check_unchanged(); }
  /// Splits of one data set agree on their classes.
  void set_classes(std::int64_t classes) { classes_ = classes; }

 private:
  NpyFile images_;
  std::vector<std::int64_t> labels_;  // [sample]
  Shape shape_;
  std::int64_t classes_;
};

/// Opens both splits of a folder.
/// @param classes  as above; with 0, the largest label of both splits plus one
/// @throws DataError naming file, record and value
Splits open_npy(const std::filesystem::path& folder, std::int64_t classes, Normalize normalize);

}  // namespace gemel::datasets
