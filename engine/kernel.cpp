#include "engine/kernel.h"

namespace gemel {

bool Launch::leaves_the_caches() const {
  for (const opencl::Region& in : inputs_)
    if (in.block == out(0).block && in.offset == out(0).offset) return false;
  return profile().cache_bytes > 0 && out_spec(0).bytes() > profile().cache_bytes;
}

}  // namespace gemel
