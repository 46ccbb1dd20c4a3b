// Divides a launch's workspace into sections.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/base/numbers.h"
#include "engine/device/launch.h"

namespace gemel {

/// A fixed number of sections, one after another, each aligned for the device.
template <std::size_t count>
class Sections {
 public:
  Sections() = default;  // all empty
  /// @param bytes  of each section
  Sections(const std::array<std::int64_t, count>& bytes, const opencl::DeviceProfile& profile) {
    for (std::size_t i = 0; i < count; ++i) begin_[i + 1] = begin_[i] + round_up(bytes[i], profile.base_alignment_bytes);
  }
  /// Bytes of all sections together.
  std::int64_t bytes() const { return begin_[count]; }
  opencl::Region in(const opencl::Region& workspace, std::size_t i) const { return {workspace.block, workspace.offset + begin_[i], begin_[i + 1] - begin_[i]}; }
  /// Returns the part of the workspace after the sections.
  opencl::Region rest(const opencl::Region& workspace) const { return {workspace.block, workspace.offset + bytes(), workspace.bytes - bytes()}; }

 private:
  std::array<std::int64_t, count + 1> begin_{};  // [section] offset in bytes
};

}  // namespace gemel
