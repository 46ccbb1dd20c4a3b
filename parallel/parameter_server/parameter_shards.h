// Which server holds which parameter.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace gemel::parallel {

/// Divides parameters over servers by bytes: the largest first, each to the server with the fewest bytes so far, of several the first. A parameter is not cut.
/// @param bytes  [parameter]
/// @return [parameter] its server, the same wherever it is computed
std::vector<int> shards_of(std::span<const std::int64_t> bytes, int servers);

}  // namespace gemel::parallel
