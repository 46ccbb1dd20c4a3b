// Private to recurrent layers: what lstm.cpp and gru.cpp share. The formulas are in opencl/kernels/lstm.cl and gru.cl.
// Legend: N sequences, T steps of the longest, H hidden numbers, G gates. Sequences are tensors [N, T, *]; a sequence of length L is read in the
// steps 0..L-1, or with `reverse` L-1..0, and what it has behind is 0.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
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
/// Of inputs that are accepted. @param weight  where the weight is among them; the first has N and T
Sizes sizes_of(const Specs& inputs, std::size_t weight);
/// The same of what is not yet checked. @throws ShapeError where the first is not [N, T, *] or the weight not [H, G H]
Sizes checked_sizes(const OpDef& op, const Specs& inputs, std::size_t weight, std::int64_t gates);
/// @param shapes  of all inputs but the last, float32; the last is lengths  @throws ShapeError under the record's names
void check_inputs(const OpDef& op, const Specs& inputs, std::initializer_list<Shape> shapes);

const AttributeDef& reverse_attribute();
inline bool is_reverse(const Attributes& a) { return a.boolean("reverse"); }

/// Of a product with the weight for each step, and `flops` for each of its hidden numbers.
Cost cost_of(const Problem& p, std::size_t weight, std::int64_t flops);

/// Of a record: extents about the edges of vectors, panels and tiles, both ways. @param make  gets N, T, H, and whether it is read in reverse
std::vector<Sample> samples_of(Sample (*make)(std::int64_t, std::int64_t, std::int64_t, bool));

// ---- what is not given
Value lengths_or_all(const Sequences& in);
Value state_or_zeros(Value given, const Sequences& in, const Value& weight);

// ---- on the host
inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
/// Row `row` of [*, width].
template <class T>
std::span<T> row_of(std::span<T> x, std::int64_t row, std::size_t width) {
  return x.subspan(at(row) * width, width);
}
/// The steps of sequence n in the order in which they are read. @throws DataError for a length that is out of range
std::vector<std::int64_t> steps_of(const HostCall& c, std::int64_t n);
/// Zeros behind the end of sequence n in an output [N, T, *]. What is before may still be an input's memory.
void clear_behind(const HostCall& c, int output, std::int64_t n, std::size_t length);
/// sums[j] += sum_k a[k] w[k, j]; sums[k] += sum_j a[j] w[k, j].
void add_product(std::span<const double> a, std::span<const double> weight, std::span<double> sums);
void add_turned_product(std::span<const double> a, std::span<const double> weight, std::span<double> sums);

// ---- in public operators
/// The whole sequences' `states` [N, T, H], each one step later: what each step starts from, `start` [N, H] at the first.
struct Before {
  Value states, start, lengths;
  bool reverse;
};
Value all_before(const Before& b);
/// The same of one step. @return [N, H]
Value before(const Before& b, std::int64_t t);
/// [N, T, *] at step t: [N, *].
Value at_step(const Value& x, std::int64_t t);
/// Where step t belongs to its sequence: bool [N, 1].
Value is_read(const Value& lengths, std::int64_t t);
/// [N, *] of each step, which are in any order: [N, T, *].
Value stacked(const Values& steps);
/// The steps in the order in which they are read, and in which gradients flow through them.
std::vector<std::int64_t> forward_steps(std::int64_t steps, bool reverse);
inline std::vector<std::int64_t> backward_steps(std::int64_t steps, bool reverse) { return forward_steps(steps, !reverse); }
/// The gradient of an output, or zeros.
Value gradient_or_zeros(const Backward& b, int output);
/// [N, T, *] as [N T, *].
Value rows_of(const Value& x);
/// A rule made of what computes a record's outputs in public operators from its inputs.
Values gradients_of(const Backward& b, const std::function<Values(const Values& inputs)>& compute);

}  // namespace gemel::recurrent
