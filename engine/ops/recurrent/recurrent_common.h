// Shared by lstm.cpp and gru.cpp. The formulas are in opencl/kernels/any/lstm.cl and gru.cl.
// Legend: N sequences, T steps of the longest, H hidden size, G gates. Sequences are tensors [N, T, *]. A sequence of length L is read in steps 0..L-1, or
// L-1..0 with `reverse`; what follows its end is 0.
#pragma once
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel::recurrent {

struct Sizes {
  std::int64_t sequences, steps, hidden, gates;  // N, T, H, G
  Shape sequence(std::int64_t width) const { return {sequences, steps, width}; }
  Shape state() const { return {sequences, hidden}; }
  std::int64_t width() const { return gates * hidden; }
};
/// Returns the sizes of valid inputs, the first of which is [N, T, *].
/// @param weight  position of the weight [H, G H]
Sizes sizes_of(const Specs& inputs, std::size_t weight);
/// Returns the sizes of unchecked inputs.
/// @throws ShapeError if the first is not [N, T, *] or the weight not [H, G H]
Sizes checked_sizes(const OpDef& op, const Specs& inputs, std::size_t weight, std::int64_t gates);
/// Checks inputs under the record's names.
/// @param shapes  of all inputs but the last, float32; the last is lengths
/// @throws ShapeError
void check_inputs(const OpDef& op, const Specs& inputs, std::initializer_list<Shape> shapes);

const AttributeDef& reverse_attribute();
inline bool is_reverse(const Attributes& a) { return a.boolean("reverse"); }

/// Cost of a product with the weight in each step, and of `flops` FLOPs for each hidden element of it.
Cost cost_of(const Problem& p, std::size_t weight, std::int64_t flops);

/// Returns samples with extents around the limits of vectors, panels and tiles, in both directions.
/// @param make  takes N, T, H, and true for reverse
std::vector<Sample> samples_of(Sample (*make)(std::int64_t, std::int64_t, std::int64_t, bool));

// ---- defaults of optional inputs
Value lengths_or_all(const Sequences& in);
Value state_or_zeros(Value given, const Sequences& in, const Value& weight);

// ---- on the host
inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
/// Returns row `row` of x [*, width].
template <class T>
std::span<T> row_of(std::span<T> x, std::int64_t row, std::size_t width) {
  return x.subspan(at(row) * width, width);
}
/// Returns the steps of sequence n in the order in which they are read.
/// @throws DataError for a length out of range
std::vector<std::int64_t> steps_of(const HostCall& c, std::int64_t n);
/// Writes zeros after the end of sequence n in an output [N, T, *]. The part before it may still share an input's memory.
void clear_behind(const HostCall& c, int output, std::int64_t n, std::size_t length);
/// sums[j] += sum_k a[k] w[k, j]
void add_product(std::span<const double> a, std::span<const double> weight, std::span<double> sums);
/// sums[k] += sum_j a[j] w[k, j]
void add_turned_product(std::span<const double> a, std::span<const double> weight, std::span<double> sums);

// ---- in public operators
/// `states` [N, T, H] delayed by one step: the state that each step starts from, with `start` [N, H] at the first.
struct Before {
  Value states, start, lengths;
  bool reverse;
};
Value all_before(const Before& b);
/// Returns the state that step t starts from, [N, H].
Value before(const Before& b, std::int64_t t);
/// Returns step t of x [N, T, *]: [N, *].
Value at_step(const Value& x, std::int64_t t);
/// Tells for each sequence if step t belongs to it: bool [N, 1].
Value is_read(const Value& lengths, std::int64_t t);
/// Stacks the [N, *] of each step, given in any order: [N, T, *].
Value stacked(const Values& steps);
/// The steps in the order in which they are read, and in which gradients flow through them.
std::vector<std::int64_t> forward_steps(std::int64_t steps, bool reverse);
inline std::vector<std::int64_t> backward_steps(std::int64_t steps, bool reverse) { return forward_steps(steps, !reverse); }
/// The gradient of an output, or zeros.
Value gradient_or_zeros(const Backward& b, int output);
/// Returns x [N, T, *] as [N T, *].
Value rows_of(const Value& x);

}  // namespace gemel::recurrent
