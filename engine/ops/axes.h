// Types of parameters that functions of several families have.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace gemel {

using Axes = std::vector<std::int64_t>;
using Pair = std::array<std::int64_t, 2>;  // along H, along W

}  // namespace gemel
