// Batches as data sets deliver them: named tensors in host memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/spec.h"

namespace gemel::datasets {

/// Memory of a batch's tensor. It is shared, so that a pending copy to a device keeps it alive.
using BatchBytes = std::shared_ptr<const std::vector<std::byte>>;

struct HostTensor {
  std::string name;
  Spec spec;         // axis 0 is the batch's samples
  BatchBytes bytes;  // row-major, in the element type of `spec`
};

/// Makes a tensor from a copy of `elements`.
/// @param shape  of as many elements as are given
template <class T>
HostTensor host_tensor(std::string name, const Shape& shape, std::span<const T> elements) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>);
  constexpr DType dtype = std::is_same_v<T, float> ? DType::float32 : std::is_same_v<T, std::int32_t> ? DType::int32 : DType::int64;
  const auto bytes = std::as_bytes(elements);
  return {std::move(name), {shape, dtype}, std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())};
}

/// The samples of one step, or one rank's shard of them. Random draws are keyed by a sample's position in the epoch's order, which does not depend on the
/// number of ranks.
struct Batch {
  std::vector<HostTensor> tensors;
  std::int64_t samples = 0;
  std::int64_t epoch = 0;
  std::int64_t index = 0;  // number of the batch in its epoch, from 0
  std::int64_t first_position = 0;
  std::vector<std::int64_t> positions = {};      // [sample], if positions are not consecutive from first_position; else empty
  std::vector<std::int64_t> micro_batches = {};  // [micro-batch] number of samples, if the batch runs in several; else empty

  std::int64_t position(std::int64_t sample) const { return positions.empty() ? first_position + sample : positions[static_cast<std::size_t>(sample)]; }

  /// Returns the tensor of that name.
  /// @throws UsageError if there is none, lists the names that exist
  const HostTensor& operator[](std::string_view name) const;
  /// Returns a copy of samples begin..begin+count-1.
  /// @throws UsageError if these are not all samples of the batch
  /// @throws DataError if a tensor has another number of samples than the batch
  Batch part(std::int64_t begin, std::int64_t count) const;
};

/// Delivers the batches of an epoch in an order that is fixed when the source is made.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Number of batches in an epoch; the last one may be smaller.
  virtual std::int64_t batches() const = 0;
  /// Number of samples in an epoch.
  virtual std::int64_t samples() const = 0;
  /// Begins an epoch at one of its batches.
  /// @param first_batch  0..batches()
  virtual void start(std::int64_t epoch, std::int64_t first_batch = 0) = 0;
  /// Returns the next batch, or nothing at the end of the epoch.
  virtual std::optional<Batch> next() = 0;
};

}  // namespace gemel::datasets
