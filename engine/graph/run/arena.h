// Arena: the memory in which the memory plans of a session run, one at a time.
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
  /// Makes slab i at least `bytes[i]` bytes large, for every i. Replaces a slab that must grow: executors compare `generation` and then place their
  /// slots again.
  /// @throws MemoryError if memory does not suffice
  void require(Interpreter& interpreter, std::span<const std::int64_t> bytes);
  const Memory& slab(int i) const { return *slabs_[static_cast<std::size_t>(i)]; }
  /// Changes when a slab is replaced.
  std::uint64_t generation() const { return generation_; }
  std::int64_t bytes() const;

 private:
  std::vector<std::unique_ptr<Memory>> slabs_;
  std::vector<std::int64_t> bytes_;
  std::uint64_t generation_ = 0;
};

}  // namespace gemel
