// What operators over slabs share: {group, elements that count} of each page (engine/parameters/parameter_slab.h).
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "engine/ops/common.h"
#include "engine/parameters/parameter_slab.h"

namespace gemel::inline ops {

constexpr std::int64_t kPageChunk = 8 * Slab::kPageElements;  // elements of one work-item on a CPU

/// A slab [n] and the table of its pages. @throws ShapeError
void check_pages(const char* op, const Spec& slab, const Spec& pages);

/// Calls f(element, group) for each element that counts, in pages of a group. @param pages  the input that is the table
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

/// Fills a table: groups -1..kSampleGroups-1 and as many elements that count.
constexpr std::int64_t kSampleGroups = Slab::kPageElements + 1;
constexpr Fill kPageFill = integers(-1, static_cast<int>(kSampleGroups));
/// Samples over slabs of several lengths, with the attributes in turn.
std::vector<Sample> page_samples(const std::function<Specs(std::int64_t elements, std::int64_t pages)>& inputs, const std::vector<Attributes>& attributes,
                                 const std::vector<Fill>& fills);

}  // namespace gemel::inline ops
