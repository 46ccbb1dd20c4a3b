// The memory plan: where each slot of a program lies in one arena, or that each has memory of its own.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

struct MemoryPlan {
  struct Place {
    int slab = -1;  // -1: not in the arena (inputs, outputs, external memory, what has memory of its own)
    std::int64_t offset = 0;
  };
  std::vector<Place> places;             // [slot]
  std::vector<std::int64_t> slab_bytes;  // the arena: slabs no larger than the device's largest allocation
  std::int64_t arena_bytes = 0;          // their sum; of slots with memory of their own: the sum of these
  std::int64_t lower_bound = 0;          // the largest sum of bytes alive at once: no plan can do with less
};

/// Places slots by decreasing size at the lowest offset that is free while they live. An output takes over an input's
/// place where the record allows it and the input dies there.
/// @param alignment  of every offset  @param max_slab_bytes  the device's largest allocation
/// @throws MemoryError if one slot alone is larger than a slab may be
MemoryPlan plan_memory(const Program& program, std::int64_t alignment, std::int64_t max_slab_bytes);
/// Places nothing in an arena: each slot has memory of its own for as long as the plan is kept.
MemoryPlan plan_own_memory(const Program& program);

}  // namespace gemel
