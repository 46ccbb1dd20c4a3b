// Batches as data sets deliver them: named tensors on the host, of any type.
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

/// The memory of a tensor of a batch: shared, so that a copy to a device may keep it alive.
using BatchBytes = std::shared_ptr<const std::vector<std::byte>>;

struct HostTensor {
  std::string name;
  Spec spec;         // axis 0 counts the batch's samples
  BatchBytes bytes;  // in the element type's own
};

/// A tensor of int64, int32 or float elements, copied. @param shape  as many elements as given
template <class T>
HostTensor host_tensor(std::string name, const Shape& shape, std::span<const T> elements) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>);
  constexpr DType dtype = std::is_same_v<T, float> ? DType::float32 : std::is_same_v<T, std::int32_t> ? DType::int32 : DType::int64;
  const auto bytes = std::as_bytes(elements);
  return {std::move(name), {shape, dtype}, std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())};
}

/// Samples of one step, or a rank's shard of them. Random draws are keyed by the sample's position in the epoch's order, which is that of
/// one process whatever the number of ranks.
struct Batch {
  std::vector<HostTensor> tensors;
  std::int64_t samples = 0;
  std::int64_t epoch = 0;
  std::int64_t index = 0;  // of the batch in its epoch, from 0
  std::int64_t first_position = 0;
  std::vector<std::int64_t> positions = {};      // of each sample, where they do not follow the first; else none
  std::vector<std::int64_t> micro_batches = {};  // samples of each, where it is to run in several; else none

  std::int64_t position(std::int64_t sample) const { return positions.empty() ? first_position + sample : positions[static_cast<std::size_t>(sample)]; }

  /// @throws UsageError where there is none: names those there are
  const HostTensor& operator[](std::string_view name) const;
  /// Samples begin..begin+count-1, copied.
  /// @throws UsageError where these are not all the batch's  @throws DataError where a tensor has another number of samples than the batch
  Batch part(std::int64_t begin, std::int64_t count) const;
};

/// Delivers epochs batch by batch, in an order that depends on nothing but its making.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Batches of an epoch; the last one may be smaller.
  virtual std::int64_t batches() const = 0;
  /// Samples of an epoch.
  virtual std::int64_t samples() const = 0;
  /// Begins an epoch at any of its batches. @param first_batch  0..batches()
  virtual void start(std::int64_t epoch, std::int64_t first_batch = 0) = 0;
  /// The next batch, or nothing at the end of the epoch.
  virtual std::optional<Batch> next() = 0;
};

}  // namespace gemel::datasets
