// HostContents: many tensors seen on the host at once, for files.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/host_view.h"
#include "engine/core/value.h"

namespace gemel {

/// Contents of tensors on the host, while it lives; they must not be written until then. What lies in a slab is one map for each slab, from
/// the first of the tensors in it to the last, without a copy where the host shares the memory; what does not is read by itself.
class HostContents {
 public:
  /// Waits for the device.
  /// @throws UsageError for a symbolic value  @throws DataError where a kernel met an index or label out of range since the last read
  explicit HostContents(std::span<const Value> values);
  ~HostContents();
  HostContents(const HostContents&) = delete;
  HostContents& operator=(const HostContents&) = delete;
  /// Of values[i], in its element type's own bytes.
  std::span<const std::byte> operator[](std::size_t i) const { return contents_[i]; }

 private:
  struct View {
    Value range;  // keeps the memory
    HostView bytes;
  };
  std::vector<View> views_;
  std::vector<std::vector<std::byte>> copies_;
  std::vector<std::span<const std::byte>> contents_;
};

}  // namespace gemel
