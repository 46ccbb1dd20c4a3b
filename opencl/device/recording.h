// Recording: what a launch enqueues, its operands by number, so that it can be enqueued again with other memory.
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
  /// Memory that stays, or a range of an operand: then `region` has its offset there and no block.
  struct Place {
    Region region;
    int operand = -1;  // -1: memory that stays
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

  /// Has `launch` enqueue to a stand-in for the device, with stand-ins for the operands. Nothing runs.
  /// @return null where it does what cannot be kept (Device::native)
  static std::unique_ptr<const Recording> make(Device& device, std::span<const Region> operands, const Launch& launch);

  /// Whether these operands coincide where those did that it was made with: a launch may decide by that.
  bool fits(std::span<const Region> operands) const;
  std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<std::size_t> first_;  // [operand]: the first operand that begins where it does
  std::vector<Entry> entries_;
};

}  // namespace gemel::opencl
