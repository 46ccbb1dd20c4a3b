// Data sets of pictures with labels. Legend: C channels, H height, W width; files hold [C, H, W], batches [H, W, C].
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
#include "engine/base/shape.h"

namespace gemel::datasets {

/// How a picture is laid into a batch: out[y, x] = picture[y + top, (flip ? W - 1 - x : x) + left], and a black pixel
/// where that lies outside.
struct Placement {
  std::int64_t top = 0, left = 0;
  bool flip = false;
};

/// The standard augmentation of one sample: four black pixels around the picture, a random crop of its own size, and a mirror image half of the time.
Placement augmentation(const Draws& draws, std::int64_t sample);

/// Pictures of one shape. A batch has "images", float32 [N, H, W, C], and "labels", int64 [N].
class Pictures : public Dataset {
 public:
  /// [C, H, W] of every picture.
  virtual const Shape& shape() const = 0;
  /// @param i  0..size()-1
  virtual std::int64_t label(std::int64_t i) const = 0;
  /// Copies picture i, placed, as float32 [H, W, C].
  /// @param i    0..size()-1
  /// @param out  exactly H * W * C elements
  /// @throws DataError naming a file that has become shorter, or cannot be read
  virtual void copy(std::int64_t i, const Placement& placement, std::span<float> out) const = 0;
  /// @throws DataError naming a file that is not as it was opened; what was copied is then not what was meant
  virtual void check_files() const {}

  std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws = {}) const override;
};

enum class Normalize { none, standard };

struct DatasetOptions {
  /// One of dataset_names().
  std::string name = "synthetic";
  /// The file or folder; unused by synthetic.
  std::filesystem::path data;
  /// [C, H, W]: what synthetic makes (3x32x32 where empty); for the others, what the pictures must be.
  Shape input;
  /// Labels must be below this many classes; 0: as the data set has them (synthetic 10, cifar10 10, npy the largest
  /// label plus one).
  std::int64_t classes = 0;
  /// Seed of synthetic pictures, and how many the training split has.
  std::uint64_t seed = 1;
  std::int64_t samples = 4096;
  /// At most so many samples of each split, the first ones; 0: all.
  std::int64_t limit = 0;
  /// standard: (pixel - mean) / deviation of the data set, a channel; cifar10 only.
  Normalize normalize = Normalize::none;
};

struct Splits {
  std::unique_ptr<Pictures> train;
  /// Null where the data set has none.
  std::unique_ptr<Pictures> validation;
};

/// "synthetic", "cifar10", "npy"
std::span<const std::string_view> dataset_names();

/// Opens a data set and checks all its files.
/// @throws UsageError for an unknown name, or options that do not fit the data set
/// @throws DataError for files missing, truncated or malformed: names the file, and its size and the size expected, or
///         record and value
Splits open_dataset(const DatasetOptions& options);

}  // namespace gemel::datasets
