// MemoryPlan: the place of each slot of a program in an arena.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

struct MemoryPlan {
  struct Place {
    int slab = -1;  // -1: outside of the arena (inputs, outputs, external memory)
    std::int64_t offset = 0;
  };
  std::vector<Place> places;             // [slot]
  std::vector<std::int64_t> slab_bytes;  // size of each slab of the arena
  std::int64_t arena_bytes = 0;          // sum of slab_bytes
  std::int64_t lower_bound = 0;          // largest number of bytes that are live at once; no plan needs less
};

/// Plans memory: places slots by decreasing size at the lowest offset that is free during their lifetimes. An output takes over the place of an input
/// if the record allows it and the input is not used later.
/// @param alignment       alignment of offsets, in bytes
/// @param max_slab_bytes  largest allocation of the device
/// @throws MemoryError if a slot is larger than a slab may be
MemoryPlan plan_memory(const Program& program, std::int64_t alignment, std::int64_t max_slab_bytes);
/// Places nothing in an arena: each slot has memory of its own for as long as the plan is kept.
MemoryPlan plan_own_memory(const Program& program);

}  // namespace gemel
