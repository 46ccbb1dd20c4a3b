#include "engine/kernel.h"

#include <algorithm>

namespace gemel {

bool Launch::leaves_the_caches() const {
  std::int64_t touched = out_spec(0).bytes();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto same = [&](const opencl::Region& r) { return r.block == inputs_[i].block && r.offset == inputs_[i].offset; };
    if (same(out(0))) return false;
    if (std::none_of(inputs_.begin(), inputs_.begin() + static_cast<std::ptrdiff_t>(i), same)) touched += inputs_[i].bytes;
  }
  return profile().cache_bytes > 0 && touched > profile().cache_bytes;
}

}  // namespace gemel
