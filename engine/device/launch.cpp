#include "engine/device/launch.h"

#include <algorithm>

namespace gemel {
namespace {

bool same_memory(const opencl::Region& a, const opencl::Region& b) { return a.block == b.block && a.offset == b.offset; }

}  // namespace

bool Launch::leaves_the_caches() const {
  std::int64_t touched = out_spec(0).bytes();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto same = [&](const opencl::Region& r) { return same_memory(r, inputs_[i]); };
    if (same(out(0))) return false;
    if (std::none_of(inputs_.begin(), inputs_.begin() + static_cast<std::ptrdiff_t>(i), same)) touched += inputs_[i].bytes;
  }
  return profile().cache_bytes > 0 && touched > profile().cache_bytes;
}

bool Launch::begin_sum() const {
  if (!problem_.op.adds) return false;
  if (!same_memory(inputs_.back(), out(0)) && out(0).bytes > 0) device().copy(inputs_.back(), out(0));
  return true;
}

}  // namespace gemel
