// Sums of gradients by weight, on the host.
#pragma once
#include <cstddef>
#include <span>

namespace gemel::parallel {

enum class Sum { begins, goes_on };
/// Computes to = weight * from, or to = to + weight * from.
/// @param from  the bytes of as many float32 numbers
void add_weighted(std::span<float> to, std::span<const std::byte> from, float weight, Sum sum);

}  // namespace gemel::parallel
