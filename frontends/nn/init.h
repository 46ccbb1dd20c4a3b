// How parameters start. Drawn on the host, each parameter from a stream of its own, so that no order matters.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/base/philox.h"
#include "engine/base/shape.h"

namespace gemel::nn {

/// Fills a piece of a parameter, row-major in the engine's layout. Large ones come in several, each with a stream of its own, from
/// threads side by side. @param first  the element at which the piece begins
using Initialiser = std::function<void(PhiloxStream& stream, std::span<float> numbers, std::int64_t first)>;

Initialiser constant(double value);
/// Uniform in [-bound, bound).
Initialiser uniform_within(double bound);
/// Normal about 0. Source: G. E. P. Box, M. E. Muller, A note on the generation of random normal deviates, 1958.
Initialiser normal(double deviation);

/// How a parameter lies in files against memory: linear [out, in] against [in, out], convolution [K, C / groups, R, S]
/// against [R, S, C / groups, K], convolution_1d [K, C / groups, R] against [R, C / groups, K].
enum class FileLayout { same, linear, convolution, convolution_1d };
/// Shape in a file of a parameter that has this shape in memory.
Shape file_shape(const Shape& shape, FileLayout layout);

/// Inputs that one output sums over. @param shape  in memory, of a linear or convolution weight
double fan_in(const Shape& shape, FileLayout layout);
/// Outputs that one input adds to, as PyTorch counts them (groups are ignored).
double fan_out(const Shape& shape, FileLayout layout);

/// PyTorch's default of linear and convolution layers: kaiming_uniform with a = sqrt(5), which is 1 / sqrt(fan in).
/// Source: K. He et al., Delving deep into rectifiers, 2015.
inline double default_bound(double fan) { return fan > 0 ? 1.0 / std::sqrt(fan) : 0.0; }
/// The same paper's normal deviation for ReLU: sqrt(2 / fan).
inline double relu_deviation(double fan) { return std::sqrt(2.0 / fan); }
/// Of a uniform start that keeps variances both ways: sqrt(6 / (fan in + fan out)).
/// Source: X. Glorot, Y. Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
inline double glorot_bound(double fan_in, double fan_out) { return std::sqrt(6.0 / (fan_in + fan_out)); }
/// Of a matrix [in, out] or [out, in].
inline double glorot_bound(const Shape& matrix) { return glorot_bound(static_cast<double>(matrix[0]), static_cast<double>(matrix[1])); }

}  // namespace gemel::nn
