#include "frontends/nn/init.h"

#include <algorithm>
#include <numbers>

#include "engine/base/error.h"

namespace gemel::nn {

Initialiser constant(double value) {
  return [value](PhiloxStream&, std::span<float> numbers, std::int64_t) { std::ranges::fill(numbers, static_cast<float>(value)); };
}

Initialiser uniform_within(double bound) {
  return [b = static_cast<float>(bound)](PhiloxStream& stream, std::span<float> numbers, std::int64_t) {
    for (float& x : numbers) x = b * (2.0f * unit_float(stream.next()) - 1.0f);
  };
}

Initialiser normal(double deviation) {
  return [d = static_cast<float>(deviation)](PhiloxStream& stream, std::span<float> numbers, std::int64_t) {
    for (std::size_t i = 0; i < numbers.size(); i += 2) {
      const float radius = d * std::sqrt(-2.0f * std::log(1.0f - unit_float(stream.next())));  // of (0, 1]: never log 0
      const float angle = 2.0f * std::numbers::pi_v<float> * unit_float(stream.next());
      numbers[i] = radius * std::cos(angle);
      if (i + 1 < numbers.size()) numbers[i + 1] = radius * std::sin(angle);
    }
  };
}

Shape file_shape(const Shape& shape, FileLayout layout) {
  if (layout == FileLayout::linear) return {shape[1], shape[0]};
  if (layout == FileLayout::convolution) return {shape[3], shape[2], shape[0], shape[1]};
  if (layout == FileLayout::convolution_1d) return {shape[2], shape[1], shape[0]};
  return shape;
}

double fan_in(const Shape& shape, FileLayout layout) {
  if (layout == FileLayout::same) throw InternalError("fan_in: a parameter that is no weight of a layer");
  return static_cast<double>(shape.product(0, shape.rank() - 1));
}

double fan_out(const Shape& shape, FileLayout layout) {
  if (layout == FileLayout::same) throw InternalError("fan_out: a parameter that is no weight of a layer");
  const std::int64_t receptive = shape.product(0, shape.rank() - 2);  // of a linear layer, 1
  return static_cast<double>(receptive * shape.back());
}

}  // namespace gemel::nn
