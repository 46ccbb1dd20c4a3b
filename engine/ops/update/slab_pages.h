// Shared by operators over slabs: the table of pages {group, elements that count} (engine/parameters/parameter_slab.h).
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "engine/ops/common.h"
#include "engine/parameters/parameter_slab.h"

namespace gemel::inline ops {

constexpr std::int64_t kPageChunk = 8 * Slab::kPageElements;  // elements of a CPU work-item

/// Checks a slab [n] and the table of its pages.
/// @throws ShapeError if they do not fit together
void check_pages(const char* op, const Spec& slab, const Spec& pages);

/// Calls f(element, group) for each element that counts, in pages that have a group.
/// @param pages  position of the table among the inputs
template <class F>
void each_counted(const HostCall& call, int pages, F f) {
  const auto rows = call.integer(pages);
  const std::int64_t n = call.in_spec(0).elements();
  for (std::int64_t page = 0; page < call.in_shape(pages)[0]; ++page) {
    const std::int64_t group = rows[at(2 * page)], first = page * Slab::kPageElements;
    if (group < 0) continue;
    for (std::int64_t i = first; i < std::min(n, first + rows[at(2 * page + 1)]); ++i) f(at(i), group);
  }
}

/// Fill of a table: groups -1..kSampleGroups-1 and the same numbers as counts of elements.
constexpr std::int64_t kSampleGroups = Slab::kPageElements + 1;
constexpr Fill kPageFill = integers(-1, static_cast<int>(kSampleGroups));
/// Returns samples over slabs of several lengths, each with one of `attributes` in turn.
std::vector<Sample> page_samples(const std::function<Specs(std::int64_t elements, std::int64_t pages)>& inputs, const std::vector<Attributes>& attributes,
                                 const std::vector<Fill>& fills);

}  // namespace gemel::inline ops
