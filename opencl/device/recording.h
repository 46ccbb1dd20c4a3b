// Recording: the commands that a launch enqueues, with operands by number, to enqueue again with other memory.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "opencl/device/device.h"

namespace gemel::opencl {

class Recording {
 public:
  /// A fixed region, or a range of an operand; `region` then holds the offset in the operand and no block.
  struct Place {
    Region region;
    int operand = -1;  // -1: a fixed region
    Region in(std::span<const Region> operands) const {
      if (operand < 0) return region;
      const Region& whole = operands[static_cast<std::size_t>(operand)];
      return {whole.block, whole.offset + region.offset, region.bytes};
    }
  };
  using Argument = std::variant<Place, std::int32_t, std::int64_t, float>;
  struct Run {
    Kernel* kernel;
    Range range;
    std::vector<Argument> arguments;
  };
  struct Copy {
    Place from, to;
  };
  struct Fill {
    Place to;
    std::vector<std::byte> pattern;
  };
  using Entry = std::variant<Run, Copy, Fill>;
  using Launch = std::function<void(Device& device, std::span<const Region> operands)>;

  /// Records a launch: calls `launch` with stand-ins for device and operands. Nothing runs.
  /// @return null if the launch cannot be recorded, because it calls Device::native
  static std::unique_ptr<const Recording> make(Device& device, std::span<const Region> operands, const Launch& launch);

  /// True if the same operands begin at the same place as when it was recorded, since a launch may depend on that.
  bool fits(std::span<const Region> operands) const;
  std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<std::size_t> first_;  // [operand] first operand that begins at the same place
  std::vector<Entry> entries_;
};

}  // namespace gemel::opencl
