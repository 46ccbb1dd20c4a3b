// Dataset: samples that batches are made of.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "datasets/loading/batch.h"

namespace gemel::datasets {

/// Labels of other meanings (hashes, row numbers) would otherwise ask for a last layer of that many classes.
inline constexpr std::int64_t kMaxClasses = 1'000'000;

/// What random changes of a sample are drawn from, beside its number: so they are the same on any rank, by any thread and after resuming.
struct Draws {
  std::uint64_t seed = 1;
  std::int64_t epoch = 0;
};

/// Samples with one label each, readable from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// The name that it is opened by: "cifar10".
  virtual std::string_view name() const = 0;
  virtual std::int64_t size() const = 0;
  /// Labels are 0..classes()-1.
  virtual std::int64_t classes() const = 0;
  /// How long a sample is, where samples of like length go well together; 0: all are alike.
  virtual std::int64_t length(std::int64_t) const { return 0; }
  /// The tensors of a batch of these samples, in this order; axis 0 of each counts them.
  /// @param samples  0..size()-1 each  @param draws  of the changes that augment them; none: they are as they are
  virtual std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws = {}) const = 0;
};

}  // namespace gemel::datasets
