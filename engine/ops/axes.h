// What functions of several families take.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace gemel {

using Axes = std::vector<std::int64_t>;
using Pair = std::array<std::int64_t, 2>;  // along H, along W

}  // namespace gemel
