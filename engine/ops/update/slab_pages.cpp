#include "engine/ops/update/slab_pages.h"

namespace gemel::inline ops {

void check_pages(const char* op, const Spec& slab, const Spec& pages) {
  check_float32(op, "slab", slab);
  check_rank(op, "slab", slab, 1);
  check_integer(op, "pages", pages);
  check_shape(op, "pages", pages, Shape{ceil_div(slab.elements(), Slab::kPageElements), 2});
}

std::vector<Sample> page_samples(const std::function<Specs(std::int64_t elements, std::int64_t pages)>& inputs, const std::vector<Attributes>& attributes,
                                 const std::vector<Fill>& fills) {
  std::vector<Sample> out;
  for (std::int64_t n : {1024, 1, 3000, 17 * 1024, 0, 2 * 1024 + 15})
    out.push_back({inputs(n, ceil_div(n, Slab::kPageElements)), attributes[out.size() % attributes.size()], fills});
  return out;
}

}  // namespace gemel::inline ops
