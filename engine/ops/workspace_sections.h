// Sections of a launch's workspace.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/base/numbers.h"
#include "engine/device/launch.h"

namespace gemel {

/// So many sections, one after the other, each aligned as the device wants its memory.
template <std::size_t count>
class Sections {
 public:
  Sections() = default;  // empty ones
  /// @param bytes  of each
  Sections(const std::array<std::int64_t, count>& bytes, const opencl::DeviceProfile& profile) {
    for (std::size_t i = 0; i < count; ++i) begin_[i + 1] = begin_[i] + round_up(bytes[i], profile.base_alignment_bytes);
  }
  /// Of all together.
  std::int64_t bytes() const { return begin_[count]; }
  opencl::Region in(const opencl::Region& workspace, std::size_t i) const { return {workspace.block, workspace.offset + begin_[i], begin_[i + 1] - begin_[i]}; }
  /// What lies behind them.
  opencl::Region rest(const opencl::Region& workspace) const { return {workspace.block, workspace.offset + bytes(), workspace.bytes - bytes()}; }

 private:
  std::array<std::int64_t, count + 1> begin_{};  // in bytes
};

}  // namespace gemel
