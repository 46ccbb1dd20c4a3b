// Arena: the memory in which the plans of one session run, one plan at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/value.h"

namespace gemel {

class Interpreter;

class Arena {
 public:
  /// Makes slab i at least `bytes[i]` long, for every i. A slab that must grow is another one afterwards: plans that were
  /// placed before look at `generation` and place themselves again.
  /// @throws DeviceError where the memory is not there
  void require(Interpreter& interpreter, std::span<const std::int64_t> bytes);
  const Memory& slab(int i) const { return *slabs_[static_cast<std::size_t>(i)]; }
  /// Changes whenever a slab does.
  std::uint64_t generation() const { return generation_; }
  std::int64_t bytes() const;

 private:
  std::vector<std::unique_ptr<Memory>> slabs_;
  std::vector<std::int64_t> bytes_;
  std::uint64_t generation_ = 0;
};

}  // namespace gemel
