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

#include "engine/base/shape.h"

namespace gemel::datasets {

/// Labels of other meanings (hashes, row numbers) would otherwise ask for a last layer of that many classes.
inline constexpr std::int64_t kMaxClasses = 1'000'000;

/// How a picture is laid into a batch: out[y, x] = picture[y + top, (flip ? W - 1 - x : x) + left], and a black pixel
/// where that lies outside.
struct Placement {
  std::int64_t top = 0, left = 0;
  bool flip = false;
};

/// Pictures of one shape with one label each, readable from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// The name that it is opened by: "cifar10".
  virtual std::string_view name() const = 0;
  virtual std::int64_t size() const = 0;
  /// Labels are 0..classes()-1.
  virtual std::int64_t classes() const = 0;
  /// [C, H, W] of every picture.
  virtual const Shape& shape() const = 0;
  /// @param i  0..size()-1
  virtual std::int64_t label(std::int64_t i) const = 0;
  /// Copies picture i, placed, as float32 [H, W, C].
  /// @param i    0..size()-1
  /// @param out  exactly H * W * C elements
  virtual void copy(std::int64_t i, const Placement& placement, std::span<float> out) const = 0;
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
  /// Seed of synthetic pictures.
  std::uint64_t seed = 1;
  /// At most so many samples of each split, the first ones; 0: all.
  std::int64_t limit = 0;
  /// standard: (pixel - mean) / deviation of the data set, a channel; cifar10 only.
  Normalize normalize = Normalize::none;
};

struct Splits {
  std::unique_ptr<Dataset> train;
  /// Null where the data set has none.
  std::unique_ptr<Dataset> validation;
};

/// "synthetic", "cifar10", "npy"
std::span<const std::string_view> dataset_names();

/// Opens a data set and checks all its files.
/// @throws UsageError for an unknown name, or options that do not fit the data set
/// @throws DataError for files missing, truncated or malformed: names the file, and its size and the size expected, or
///         record and value
Splits open_dataset(const DatasetOptions& options);

}  // namespace gemel::datasets
