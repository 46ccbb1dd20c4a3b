// Dataset: the interface of data sets, which make batches from their samples.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "datasets/loading/batch.h"

namespace gemel::datasets {

/// Most classes of a data set. Larger labels are hashes or row numbers rather than classes, and the last layer would be as large.
inline constexpr std::int64_t kMaxClasses = 1'000'000;

/// Key of a sample's random augmentation, together with its number. The draws are thus the same on any rank, in any thread and after resuming.
struct Draws {
  std::uint64_t seed = 1;
  std::int64_t epoch = 0;
};

/// Samples with one label each. All functions may be called from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Name that opens the data set: "cifar10".
  virtual std::string_view name() const = 0;
  virtual std::int64_t size() const = 0;
  /// Number of classes; labels are 0..classes()-1.
  virtual std::int64_t classes() const = 0;
  /// Length of a sample, for batching by length; 0 if all samples are equally long.
  virtual std::int64_t length(std::int64_t) const { return 0; }
  /// Makes the tensors of a batch of the samples in the order given; axis 0 of each tensor is the sample.
  /// @param samples  0..size()-1 each
  /// @param draws  key of the random augmentation; none: no augmentation
  virtual std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws = {}) const = 0;
};

}  // namespace gemel::datasets
