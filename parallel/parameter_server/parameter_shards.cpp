#include "parallel/parameter_server/parameter_shards.h"

#include <algorithm>
#include <numeric>

#include "engine/base/numbers.h"

namespace gemel::parallel {

std::vector<int> shards_of(std::span<const std::int64_t> bytes, int servers) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return bytes[i]; });
  std::vector<std::int64_t> held(at(servers), 0);
  std::vector<int> out(bytes.size(), 0);
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(held);
    *least += bytes[i];
    out[i] = static_cast<int>(least - held.begin());
  }
  return out;
}

}  // namespace gemel::parallel
