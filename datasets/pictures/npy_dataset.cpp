#include "datasets/pictures/npy_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "datasets/pictures/place_picture.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/numbers.h"

namespace gemel::datasets {
namespace {

void require(const NpyFile& file, NpyType type, int rank, std::string_view accepted) {
  if (file.type() != type || file.shape().rank() != rank)
    throw DataError(fmt::format("npy: {}: the array is {} {}; accepted: {}", file.path().string(), to_string(file.type()), to_string(file.shape()), accepted));
}

}  // namespace

NpyDataset::NpyDataset(const std::filesystem::path& images, const std::filesystem::path& labels, std::int64_t classes) : images_(images), classes_(classes) {
  const NpyFile numbers(labels);
  require(images_, NpyType::float32, 4, "float32 [N, C, H, W]");
  require(numbers, NpyType::int64, 1, "int64 [N]");
  if (images_.shape().elements() == 0)
    throw DataError(fmt::format("npy: {}: the array {} is empty; accepted: one picture or more", images.string(), to_string(images_.shape())));
  if (numbers.shape()[0] != size())
    throw DataError(fmt::format("npy: {} has {} labels; {} has {} pictures: accepted: as many", labels.string(), numbers.shape()[0], images.string(), size()));
  shape_ = Shape(images_.shape().span().subspan(1));
  labels_.resize(at(size()));
  numbers.read(0, std::as_writable_bytes(std::span(labels_)));
  const std::int64_t accepted = classes ? classes : kMaxClasses;
  std::int64_t largest = 0;
  for (std::int64_t i = 0; i < size(); ++i) {
    const std::int64_t value = label(i);
    if (value < 0 || value >= accepted)
      throw DataError(fmt::format("npy: {}: record {} (from 0) has label {}; accepted: 0..{}", labels.string(), i, value, accepted - 1));
    largest = std::max(largest, value);
  }
  if (!classes) classes_ = largest + 1;
}

void NpyDataset::copy(std::int64_t i, const Placement& placement, std::span<float> out) const {
  const std::int64_t plane = shape_[1] * shape_[2];
  const std::size_t elements = at(shape_.elements());
  const auto planes = std::make_unique_for_overwrite<float[]>(elements);
  const auto bytes = std::as_writable_bytes(std::span(planes.get(), elements));
  images_.read(i * std::ssize(bytes), bytes);
  const auto pixel = [&](std::int64_t c, std::int64_t k) { return planes[at(c * plane + k)]; };
  place(
      shape_, placement, pixel, [](std::int64_t) { return 0.0f; }, out);
}

Splits open_npy(const std::filesystem::path& folder, std::int64_t classes, Normalize normalize) {
  if (normalize == Normalize::standard) throw UsageError("npy: normalize standard needs a data set with known statistics; accepted: none, or cifar10");
  auto train = std::make_unique<NpyDataset>(folder / "images.npy", folder / "labels.npy", classes);
  const bool pictures = is_there(folder / "val_images.npy");
  const bool labels = is_there(folder / "val_labels.npy");
  if (pictures != labels)
    throw DataError(fmt::format("npy: {} has {} without {}; accepted: both or neither", folder.string(), pictures ? "val_images.npy" : "val_labels.npy",
                                pictures ? "val_labels.npy" : "val_images.npy"));
  if (!pictures) return {std::move(train), nullptr};
  auto validation = std::make_unique<NpyDataset>(folder / "val_images.npy", folder / "val_labels.npy", classes);
  if (validation->shape() != train->shape())
    throw DataError(fmt::format("npy: {} holds pictures of {}; images.npy of {}: accepted: equal shapes", (folder / "val_images.npy").string(),
                                to_string(validation->shape()), to_string(train->shape())));
  const std::int64_t both = std::max(train->classes(), validation->classes());
  train->set_classes(both);
  validation->set_classes(both);
  return {std::move(train), std::move(validation)};
}

}  // namespace gemel::datasets
