// Initialisation of parameters on the host. Each parameter has a random stream of its own, so that the order does not matter.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/base/philox.h"
#include "engine/base/shape.h"

namespace gemel::nn {

/// Fills a part of a parameter, row-major in the engine's layout. Large parameters are filled in parts, each with a stream of its own, by several threads.
/// @param first  first element of the part
using Initialiser = std::function<void(PhiloxStream& stream, std::span<float> numbers, std::int64_t first)>;

Initialiser constant(double value);
/// Uniform in [-bound, bound).
Initialiser uniform_within(double bound);
/// Normal with mean 0.
/// Source: G. E. P. Box, M. E. Muller, A note on the generation of random normal deviates, 1958.
Initialiser normal(double deviation);

/// Layout of a parameter in files, if it differs from memory. linear: [out, in] for [in, out]. convolution: [K, C / groups, R, S] for [R, S, C / groups, K].
/// convolution_1d: [K, C / groups, R] for [R, C / groups, K].
enum class FileLayout { same, linear, convolution, convolution_1d };
/// Returns the shape in files of a parameter of this shape in memory.
Shape file_shape(const Shape& shape, FileLayout layout);

/// Returns the number of inputs of each output.
/// @param shape  in memory, of a linear or convolution weight
double fan_in(const Shape& shape, FileLayout layout);
/// Returns the number of outputs of each input, as PyTorch counts them (groups are ignored).
double fan_out(const Shape& shape, FileLayout layout);

/// Bound of PyTorch's default initialisation of linear and convolution layers: kaiming_uniform with a = sqrt(5), which is 1 / sqrt(fan in).
/// Source: K. He et al., Delving deep into rectifiers, 2015.
inline double default_bound(double fan) { return fan > 0 ? 1.0 / std::sqrt(fan) : 0.0; }
/// Deviation of a normal initialisation for ReLU networks: sqrt(2 / fan). Source: as default_bound.
inline double relu_deviation(double fan) { return std::sqrt(2.0 / fan); }
/// Bound of a uniform initialisation that keeps variances in both directions: sqrt(6 / (fan in + fan out)).
/// Source: X. Glorot, Y. Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
inline double glorot_bound(double fan_in, double fan_out) { return std::sqrt(6.0 / (fan_in + fan_out)); }
/// Bound for a matrix [in, out] or [out, in].
inline double glorot_bound(const Shape& matrix) { return glorot_bound(static_cast<double>(matrix[0]), static_cast<double>(matrix[1])); }

}  // namespace gemel::nn
