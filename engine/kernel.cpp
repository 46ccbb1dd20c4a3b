#include "engine/kernel.h"

namespace gemel {

bool Launch::leaves_the_caches() const {
  std::int64_t touched = out_spec(0).bytes();
  for (const opencl::Region& in : inputs_) {
    if (in.block == out(0).block && in.offset == out(0).offset) return false;
    touched += in.bytes;
  }
  return profile().cache_bytes > 0 && touched > profile().cache_bytes;
}

}  // namespace gemel
