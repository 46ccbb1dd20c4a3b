// Data sets of pictures with labels. C channels, H height, W width; files hold [C, H, W], batches [H, W, C].
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/loading/dataset.h"
#include "datasets/pictures/augmentation.h"
#include "engine/base/shape.h"

namespace gemel::datasets {

/// Pictures of one shape. A batch has "images", float32 [N, H, W, C], and "labels", int64 [N].
class Pictures : public Dataset {
 public:
  /// Shape [C, H, W] of every picture.
  virtual const Shape& shape() const = 0;
  /// @param i  0..size()-1
  virtual std::int64_t label(std::int64_t i) const = 0;
  /// Copies picture i with a placement, as float32 [H, W, C].
  /// @param i    0..size()-1
  /// @param out  exactly H * W * C elements
  /// @throws DataError if a file has become shorter or cannot be read
  virtual void copy(std::int64_t i, const Placement& placement, std::span<float> out) const = 0;
  /// Checks that no file has changed since it was opened, which would make earlier copies invalid.
  /// @throws DataError naming a file that has changed
  virtual void check_files() const {}

  std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws = {}) const override;
};

enum class Normalize { none, standard };

struct PictureDatasetOptions {
  /// One of dataset_names().
  std::string name = "synthetic";
  /// File or folder; unused by synthetic.
  std::filesystem::path data;
  /// [C, H, W]. Shape that synthetic makes (3x32x32 if empty), and that the pictures of other data sets must have.
  Shape input;
  /// Labels must be below it; 0: as the data set has them (synthetic 10, cifar10 10, npy the largest label plus one).
  std::int64_t classes = 0;
  /// Seed and number of training samples of synthetic.
  std::uint64_t seed = 1;
  std::int64_t samples = 4096;
  /// Most samples of each split, the first ones; 0: all.
  std::int64_t limit = 0;
  /// standard: (pixel - mean) / deviation for each channel, over the data set; cifar10 only.
  Normalize normalize = Normalize::none;
};

struct Splits {
  std::unique_ptr<Pictures> train;
  /// Null if the data set has none.
  std::unique_ptr<Pictures> validation;
};

/// "synthetic", "cifar10", "npy"
std::span<const std::string_view> dataset_names();

/// Opens a data set and checks all its files.
/// @throws UsageError for an unknown name, or options that do not fit the data set
/// @throws DataError for missing, truncated or malformed files: names the file with its size and the size expected, or with record and value
Splits open_dataset(const PictureDatasetOptions& options);

}  // namespace gemel::datasets
