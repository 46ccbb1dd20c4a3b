// The operators as typed functions. Arguments come by value where their memory may be taken over: move what you no longer need.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/op.h"
#include "engine/value.h"

namespace gemel {

enum class Keep { no, yes };
enum class Transpose { no, yes };
using Axes = std::vector<std::int64_t>;

// create.cpp
/// A tensor of one value.
Value full(Session& session, const Spec& spec, double value);
/// The same contents in memory of its own.
Value copy(Value x);
/// destination = source, in place. Shapes and types are equal; the destination is detached first.
void assign(const Value& destination, Value source);

// shape.cpp
/// The same elements, in the same order, under another shape; shares memory. One extent may be -1.
Value reshape(Value x, const std::vector<std::int64_t>& shape);
Value reshape(Value x, const Shape& shape);
/// Repeats along axes of extent 1, and along new leading axes.
Value broadcast_to(Value x, const Shape& shape);

// binary.cpp: element by element, with broadcasting; both sides of one element type
Value add(Value a, Value b);
Value subtract(Value a, Value b);
Value multiply(Value a, Value b);

// unary.cpp
Value negate(Value x);
Value exp(Value x);

// reduce.cpp
/// Sum over axes (all where none are given).
Value sum(Value x, const Axes& axes = {}, Keep keep = Keep::no);
/// Undoes a broadcast: sums x over the axes along which `shape` was repeated.
Value sum_to(Value x, const Shape& shape);

// matmul.cpp
/// op(a) op(b). @param a [..., M, K] @param b [..., K, N] (before transposing) @return [..., M, N]; leading axes are equal,
/// or one side has none and serves them all
Value matmul(Value a, Value b, Transpose transpose_a = Transpose::no, Transpose transpose_b = Transpose::no);

// softmax.cpp
/// y[i] = exp(x[i] - max x) / sum_j exp(x[j] - max x) along an axis.
Value softmax(Value x, int axis = -1);

inline Value operator+(Value a, Value b) { return add(std::move(a), std::move(b)); }
inline Value operator-(Value a, Value b) { return subtract(std::move(a), std::move(b)); }
inline Value operator*(Value a, Value b) { return multiply(std::move(a), std::move(b)); }
inline Value operator-(Value x) { return negate(std::move(x)); }
/// With a number: a tensor of one element, of x's type, is made for it.
Value operator+(Value x, double number);
Value operator-(Value x, double number);
Value operator*(Value x, double number);
inline Value operator*(double number, Value x) { return std::move(x) * number; }
inline Value operator+(double number, Value x) { return std::move(x) + number; }

const OpDef& full_def();
const OpDef& copy_def();
const OpDef& assign_def();
const OpDef& reshape_def();
const OpDef& broadcast_to_def();
const OpDef& add_def();
const OpDef& subtract_def();
const OpDef& multiply_def();
const OpDef& negate_def();
const OpDef& exp_def();
const OpDef& sum_def();
const OpDef& matmul_def();
const OpDef& softmax_def();

}  // namespace gemel
