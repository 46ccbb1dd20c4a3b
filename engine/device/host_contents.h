// HostContents: contents of many tensors on the host, for writing files.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/host_view.h"
#include "engine/core/value.h"

namespace gemel {

/// Contents of tensors on the host. The tensors must not be written while this object lives. Tensors of one slab are mapped together, without a
/// copy if the host shares the memory; other tensors are read one by one.
class HostContents {
 public:
  /// Waits for the device.
  /// @throws UsageError for a symbolic value
  /// @throws DataError if a kernel has met an index or label out of range since the last read
  explicit HostContents(std::span<const Value> values);
  ~HostContents();
  HostContents(const HostContents&) = delete;
  HostContents& operator=(const HostContents&) = delete;
  /// Bytes of values[i], in its element type.
  std::span<const std::byte> operator[](std::size_t i) const { return contents_[i]; }

 private:
  struct View {
    Value range;  // keeps the memory alive
    HostView bytes;
  };
  std::vector<View> views_;
  std::vector<std::vector<std::byte>> copies_;
  std::vector<std::span<const std::byte>> contents_;
};

}  // namespace gemel
