#include "engine/graph/run/arena.h"

#include <algorithm>
#include <numeric>

#include "engine/core/trace.h"

namespace gemel {

void Arena::require(Interpreter& interpreter, std::span<const std::int64_t> bytes) {
  slabs_.resize(std::max(slabs_.size(), bytes.size()));
  bytes_.resize(slabs_.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] <= bytes_[i]) continue;
    slabs_[i].reset();  // given back first: the larger one may need its place
    bytes_[i] = 0;
    ++generation_;
    slabs_[i] = interpreter.allocate_bytes(bytes[i], "graph arena");
    bytes_[i] = bytes[i];
  }
}

std::int64_t Arena::bytes() const { return std::accumulate(bytes_.begin(), bytes_.end(), std::int64_t{0}); }

}  // namespace gemel
