#pragma once

namespace gemel::parallel {

/// Operation that combines the elements of all ranks. `mean` divides the sum by the number of ranks that contribute data; `bit_and` is for integers.
enum class Reduction { sum, mean, min, max, product, bit_and };
/// "sum", "mean", "min", "max", "product", "bit_and"
const char* to_string(Reduction reduction);

}  // namespace gemel::parallel
