#include "datasets/pictures/picture_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "datasets/pictures/cifar10.h"
#include "datasets/pictures/npy_dataset.h"
#include "datasets/pictures/synthetic_pictures.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::datasets {
namespace {

constexpr std::int64_t kSyntheticValidation = 512;

Splits open_synthetic(const PictureDatasetOptions& options) {
  if (options.normalize == Normalize::standard)
    throw UsageError("synthetic: normalize standard needs a data set with known statistics; accepted: none, or cifar10");
  const Shape shape = options.input.empty() ? Shape{3, 32, 32} : options.input;
  if (shape.rank() != 3 || std::ranges::any_of(shape, [](std::int64_t d) { return d < 1 || d > 65536; }))
    throw UsageError(fmt::format("synthetic: input {} is no picture; accepted: [C, H, W], each 1..65536", to_string(shape)));
  const std::int64_t classes = options.classes ? options.classes : 10;
  using Split = SyntheticDataset::Split;
  return {std::make_unique<SyntheticDataset>(shape, classes, options.samples, options.seed, Split::train),
          std::make_unique<SyntheticDataset>(shape, classes, kSyntheticValidation, options.seed, Split::validation)};
}

struct Opener {
  std::string_view name;
  bool needs_data;
  Splits (*open)(const PictureDatasetOptions&);
};
constexpr std::array<Opener, 3> kOpeners{{{"synthetic", false, open_synthetic},
                                          {"cifar10", true, [](const PictureDatasetOptions& o) { return open_cifar10(o.data, o.classes, o.normalize); }},
                                          {"npy", true, [](const PictureDatasetOptions& o) { return open_npy(o.data, o.classes, o.normalize); }}}};
constexpr auto kDatasetNames = [] {
  std::array<std::string_view, kOpeners.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kOpeners[i].name;
  return names;
}();

/// The first samples of a data set.
class Prefix final : public Pictures {
 public:
  Prefix(std::unique_ptr<Pictures> whole, std::int64_t size) : whole_(std::move(whole)), size_(size) {}
  std::string_view name() const override { return whole_->name(); }
  std::int64_t size() const override { return size_; }
  std::int64_t classes() const override { return whole_->classes(); }
  const Shape& shape() const override { return whole_->shape(); }
  std::int64_t label(std::int64_t i) const override { return whole_->label(i); }
  void copy(std::int64_t i, const Placement& placement, std::span<float> out) const override { whole_->copy(i, placement, out); }
  void check_files() const override { whole_->check_files(); }

 private:
  std::unique_ptr<Pictures> whole_;
  std::int64_t size_;
};

}  // namespace

std::vector<HostTensor> Pictures::tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws) const {
  const std::int64_t n = std::ssize(samples);
  const std::size_t elements = at(shape().elements());
  const auto images = std::make_shared<std::vector<std::byte>>(samples.size() * elements * sizeof(float));
  const std::span<float> pixels(reinterpret_cast<float*>(images->data()), samples.size() * elements);
  std::vector<std::int64_t> labels;
  for (std::size_t j = 0; j < samples.size(); ++j) {
    copy(samples[j], draws ? augmentation(*draws, samples[j]) : Placement{}, pixels.subspan(j * elements, elements));
    labels.push_back(label(samples[j]));
  }
  check_files();
  return {{"images", f32({n, shape()[1], shape()[2], shape()[0]}), images}, host_tensor("labels", Shape{n}, std::span<const std::int64_t>(labels))};
}

std::span<const std::string_view> dataset_names() { return kDatasetNames; }

Splits open_dataset(const PictureDatasetOptions& options) {
  const auto opener = std::ranges::find(kOpeners, options.name, &Opener::name);
  if (opener == kOpeners.end()) throw UsageError(fmt::format("dataset: '{}' is unknown; accepted: {}", options.name, fmt::join(kDatasetNames, ", ")));
  if (opener->needs_data && options.data.empty()) throw UsageError(fmt::format("{}: no data path was given; accepted: the path of its files", options.name));
  if (options.limit < 0) throw UsageError(fmt::format("{}: limit {} is negative; accepted: 1 or more, 0 for all", options.name, options.limit));
  if (options.classes < 0 || options.classes > kMaxClasses)
    throw UsageError(fmt::format("{}: classes {} is out of range; accepted: 1..{}, 0 for the data set's own", options.name, options.classes, kMaxClasses));
  Splits splits = opener->open(options);
  const Pictures& train = *splits.train;
  if (!options.input.empty() && options.input != train.shape())
    throw UsageError(fmt::format("{}: input {} was asked for; the pictures are {}", options.name, to_string(options.input), to_string(train.shape())));
  for (std::unique_ptr<Pictures>* split : {&splits.train, &splits.validation})
    if (*split && options.limit && options.limit < (*split)->size()) *split = std::make_unique<Prefix>(std::move(*split), options.limit);
  return splits;
}

}  // namespace gemel::datasets
